// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The differences between torch 2.11 and 2.15 that touch us, all found by what the headers offer.
#pragma once

#include <ATen/core/Tensor.h>

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

}  // namespace spillway
