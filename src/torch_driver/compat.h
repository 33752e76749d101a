// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The differences between torch 2.11 and 2.15 that touch us, all found by what the headers offer.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace spillway {

/// `Node` is owned by shared_ptr before 2.13, by intrusive_ptr since.
using NodePtr = std::decay_t<decltype(std::declval<at::Tensor const&>().grad_fn())>;

/// Newer engines have a virtual that a delegating engine must hand on, or node creation hooks
/// silently die.
template <typename Engine>
concept HasNodeCreationHooks = requires(Engine& engine) {
    engine.get_node_creation_hooks();
};

/// A kind of debug info of our own: a number before 2.13 or so, an address since.
template <typename Kind>
Kind debug_info_kind(std::string_view const* name) {
    if constexpr (std::is_enum_v<Kind>) {
        constexpr int kFarFromTorchs = 0x53;
        return static_cast<Kind>(kFarFromTorchs);
    } else {
        return Kind(name);
    }
}

/// The virtuals of the CUDA allocator (`Base`) that torch 2.15 has and 2.11 lacks, forwarded to the
/// allocator behind. Over a base without them they are functions that nobody calls. They cannot be
/// marked `override`, so `overrides_all_newer` checks their types.
template <typename Base>
class HandsOnNewerVirtuals : public Base {
  public:
    explicit HandsOnNewerVirtuals(Base* behind) : behind_(behind) {}

    void markCaptureBegin(c10::DeviceIndex device) {
        if constexpr (requires(Base & base) { base.markCaptureBegin(device); }) {
            this->behind_->markCaptureBegin(device);
        }
    }
    void markCaptureEnd(c10::DeviceIndex device) {
        if constexpr (requires(Base & base) { base.markCaptureEnd(device); }) {
            this->behind_->markCaptureEnd(device);
        }
    }
    std::shared_ptr<c10::GatheredContext> getContextForPointer(void const* memory) {
        if constexpr (requires(Base & base) { base.getContextForPointer(memory); }) {
            return this->behind_->getContextForPointer(memory);
        }
        return nullptr;
    }
    bool supportsUserMetadata() {
        if constexpr (requires(Base & base) { base.supportsUserMetadata(); }) {
            return this->behind_->supportsUserMetadata();
        }
        return false;
    }
    void annotateMemory(void const* memory, std::string const& metadata) {
        if constexpr (requires(Base & base) { base.annotateMemory(memory, metadata); }) {
            this->behind_->annotateMemory(memory, metadata);
        }
    }
    using Observer = std::function<void(std::int64_t, std::size_t, std::size_t, std::size_t)>;
    void attachOomRejectionObserver(Observer observer) {
        if constexpr (requires(Base & base) { base.attachOomRejectionObserver(observer); }) {
            this->behind_->attachOomRejectionObserver(std::move(observer));
        }
    }
    c10::DataPtr allocateWithAddress(std::size_t size_bytes, void* address) {
        if constexpr (requires(Base & base) { base.allocateWithAddress(size_bytes, address); }) {
            return this->behind_->allocateWithAddress(size_bytes, address);
        }
        return {};
    }

  protected:
    Base* const behind_;
};

template <typename Result, typename One, typename Other, typename... Args>
constexpr bool same_call(Result (One::*)(Args...), Result (Other::*)(Args...)) {
    return true;
}
constexpr bool same_call(auto, auto) {
    return false;
}

/// Whether each of those that `Base` has is overridden.
template <typename Base>
constexpr bool overrides_all_newer() {
    using Ours = HandsOnNewerVirtuals<Base>;
    bool all = true;
    if constexpr (requires { &Base::markCaptureBegin; }) {
        all = all && same_call(&Base::markCaptureBegin, &Ours::markCaptureBegin);
        all = all && same_call(&Base::markCaptureEnd, &Ours::markCaptureEnd);
    }
    if constexpr (requires { &Base::getContextForPointer; }) {
        all = all && same_call(&Base::getContextForPointer, &Ours::getContextForPointer);
    }
    if constexpr (requires { &Base::supportsUserMetadata; }) {
        all = all && same_call(&Base::supportsUserMetadata, &Ours::supportsUserMetadata);
    }
    if constexpr (requires { &Base::annotateMemory; }) {
        all = all && same_call(&Base::annotateMemory, &Ours::annotateMemory);
    }
    if constexpr (requires { &Base::attachOomRejectionObserver; }) {
        all =
            all && same_call(&Base::attachOomRejectionObserver, &Ours::attachOomRejectionObserver);
    }
    if constexpr (requires { &Base::allocateWithAddress; }) {
        all = all && same_call(&Base::allocateWithAddress, &Ours::allocateWithAddress);
    }
    return all;
}

}  // namespace spillway
