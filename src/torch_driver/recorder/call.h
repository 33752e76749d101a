// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Operators that ran, as far as it takes to run them again. Nothing here holds a tensor's bytes.
#pragma once

#include "base/ids.h"
#include "torch_driver/autograd/geometry.h"
#include "torch_driver/recorder/ambient.h"
#include "torch_driver/recorder/call_time.h"
#include "torch_driver/recorder/operator_facts.h"
#include "torch_driver/recorder/recipe_rules.h"

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

namespace spillway {

struct Call;
class CopiedSource;

/// Why nobody can make a content again.
enum class NoMaker : std::uint8_t {
    none,            ///< somebody can: it has a maker
    external,        ///< it was there before any operator that was recorded
    not_listed,      ///< its operator is not on our list
    no_generator,    ///< its operator draws from PyTorch's own generator
    special_tensor,  ///< it or what it is made of is no plain tensor
    partly_written,  ///< what was there before is not known, and shows through
    written_twice,   ///< two arguments of its operator are on the storage that it writes
    unseen_write,    ///< its version moved, and no schema tells why
    under_autocast,  ///< its operator is another library's, whose kernel may ask for autocast
    not_planned,     ///< it was there before, or no plan asks for its operator (record_only)
};

/// Those whose calls alone are recorded.
using OperatorSet = std::unordered_set<OperatorFacts const*>;

/// What of a recorder's forward lives: its saved tensors may need what it used.
struct ForwardState {
    std::atomic<bool> is_under_way = false;  ///< something was saved, and nothing is needed yet
    std::atomic<std::int64_t> saved = 0;     ///< that were not forgotten
};

/// What a storage holds from one write to the next.
///
/// Thread  as CallRecorder
struct Content final : c10::intrusive_ptr_target {
    Content(c10::weak_intrusive_ptr<c10::StorageImpl> its_storage, std::int64_t its_number)
        : storage(std::move(its_storage)), number(its_number) {}
    ~Content() override;

    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  ///< where it was; may hold another now
    std::int64_t const number;                          ///< in the order of their making
    std::int64_t size_bytes = 0;
    c10::intrusive_ptr<Call> maker;
    int output = 0;  ///< of the maker; `kWritten`: the argument that it wrote
    NoMaker why = NoMaker::external;
    OperatorFacts const* by = nullptr;  ///< that made or wrote it; null: none, or none of PyTorch's
    bool is_replaced = false;           ///< its storage was written since, or nobody looks any more
    std::atomic<bool> is_written = false;  ///< of these, surely the first; any thread may ask
    bool was_there = false;                ///< nothing that is recorded made or wrote it
    /// It was there, or was written while no forward was under way (by an optimizer, say): what a
    /// forward makes of it can be made again as long as nobody writes it.
    bool is_of_before = false;
    /// Its storage was written in a forward after it was used there, in this step or an earlier
    /// one.
    bool is_changing = false;
    ValueId value;  ///< that was saved of it, if one was
    /// That recipes are made from, if one is and it is no saved value.
    std::weak_ptr<CopiedSource> source;

    static constexpr int kWritten = -1;
};
using ContentRef = c10::intrusive_ptr<Content>;

/// What a saved tensor's storage holds: known when the operator has ended that saves it.
///
/// Thread  filled in by the one that records; any other may ask, once it is known
struct SavedContent {
    SavedContent(ValueId of, c10::VariableVersion counter, std::shared_ptr<ForwardState> forward)
        : value(of),
          counter_(std::move(counter)),
          version_(counter_.enabled() ? counter_.current_version() : 0),
          forward_(std::move(forward)) {
        forward_->is_under_way.store(true, std::memory_order_relaxed);
        forward_->saved.fetch_add(1, std::memory_order_relaxed);
    }
    ~SavedContent() { forward_->saved.fetch_sub(1, std::memory_order_relaxed); }
    SavedContent(SavedContent const&) = delete;
    SavedContent& operator=(SavedContent const&) = delete;

    /// Backward wants it. Any thread.
    void is_needed() const { forward_->is_under_way.store(false, std::memory_order_relaxed); }

    /// Something wrote to the storage since it was saved, as far as operators and versions tell.
    [[nodiscard]] bool is_written() const {
        return (counter_.enabled() && counter_.current_version() != version_ &&
                keeps(RecipeRule::saved_versions_are_compared)) ||
               (is_known && content->is_written);
    }

    ValueId const value;
    std::atomic<bool> is_known = false;
    ContentRef content;

  private:
    c10::VariableVersion const counter_;  ///< of the saved tensor
    std::uint32_t const version_;
    std::shared_ptr<ForwardState> const forward_;  ///< of its recorder
};

/// A tensor that an operator was given.
struct TensorArgument {
    int argument = 0;
    int element = -1;  ///< of a list; -1: the argument itself
    ContentRef content;
    Geometry geometry;
    c10::Device device{c10::kCPU};
    std::int64_t storage_bytes = 0;  ///< after the call
    bool is_overwritten = false;     ///< whole, before anything is read
};

/// One call of an operator on this thread, below autograd.
struct Call final : c10::intrusive_ptr_target {
    explicit Call(OperatorFacts const& of) : facts(of) {}

    OperatorFacts const& facts;
    std::vector<c10::IValue> arguments;  ///< nothing in place of a tensor, unless it is a number
    c10::SmallVector<TensorArgument, 2> tensors;
    std::optional<int> written;              ///< index into `tensors`
    std::optional<at::Generator> generator;  ///< a clone, as it was before
    Ambient ambient;
    std::optional<ProductSettings> products;  ///< where it depends on them
    CallTime time;                            ///< operators inside it included

    /// Of its first tensor.
    [[nodiscard]] c10::DeviceType device() const {
        return tensors.empty() ? c10::kCPU : tensors.front().device.type();
    }
};

}  // namespace spillway
