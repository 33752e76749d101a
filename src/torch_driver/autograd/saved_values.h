// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What is saved, value by value: the hooks that stand for a value and the storage that holds it. A
// storage that several nodes save, under any view, is one value and moves once.
#pragma once

#include "base/ids.h"
#include "memory/device.h"
#include "torch_driver/autograd/saved_hook.h"
#include "torch_driver/origin/tensor_classes.h"
#include "torch_driver/recompute/saved_recipe.h"

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/SmallVector.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

struct SavedValue {
    c10::SmallVector<SavedHook*, 2> hooks;
    c10::StorageImpl* storage = nullptr;  ///< alive while a hook keeps an alias; else null
    std::uint32_t version = 0;
    std::size_t storage_bytes = 0;  ///< as torch asked
    std::int64_t size_bytes = 0;    ///< as the device rounded
    /// That may use the bytes: first the one that they were allocated on, then those that saved.
    c10::SmallVector<StreamId, 2> streams;
    StreamId home;  ///< the stream that its first block was allocated on
    StreamId user;  ///< the stream that saved it first, and will ask for it
    int pins = 0;   ///< it outlives its last hook while there is one
    /// Recipes of values that have gone need it: then it keeps its storage, too.
    int recipe_pins = 0;
    c10::Storage held;                            ///< where hooks are gone, and recipes need it
    std::shared_ptr<SavedContent const> content;  ///< null: nothing is recorded
    std::shared_ptr<SavedRecipe const> recipe;    ///< null: there is none, or not yet
    std::optional<std::uint64_t> checksum;        ///< while it is gone by its recipe
    StreamId made_on;  ///< whose work made it again, while it is here; invalid: none
    std::atomic<bool> is_reported = false;  ///< the loop knows it
    bool could_leave = false;  ///< UnsharedTracker: it was unshared when that looked last
    bool is_state = false;     ///< an optimizer's, between its steps; no saved tensor
    SaverClass saver;          ///< what all savers agree on, where tensors are classified

    void add_stream(StreamId stream);
    [[nodiscard]] bool has(SavedHook const* hook) const;
};

/// Values by id, and by the storage that holds them now.
///
/// Thread  not thread-safe: the mutex of SavedTensors guards it, and what its values have
class SavedValues {
  public:
    /// A value that `storage` holds from now on; one that was in it before goes on without it.
    [[nodiscard]] std::pair<ValueId const, SavedValue>& add(c10::StorageImpl* storage);

    /// Null: it has gone. A value stays where it is until `erase`.
    [[nodiscard]] SavedValue* find(ValueId value);
    [[nodiscard]] SavedValue const* find(ValueId value) const;
    /// The value in `storage`; null: there is none.
    [[nodiscard]] std::pair<ValueId const, SavedValue>* in(c10::StorageImpl* storage);

    /// The value came back: `storage` holds it from now on.
    void bind(ValueId value, c10::StorageImpl* storage);
    /// No storage holds it any more.
    void unbind(ValueId value);
    void erase(ValueId value) { entries_.erase(value); }

    [[nodiscard]] std::size_t size() const { return entries_.size(); }
    [[nodiscard]] auto begin() { return entries_.begin(); }
    [[nodiscard]] auto end() { return entries_.end(); }
    [[nodiscard]] auto begin() const { return entries_.begin(); }
    [[nodiscard]] auto end() const { return entries_.end(); }

    /// Values in the order in which their nodes run, by the nodes' sequence numbers; values of
    /// other nodes are left out.
    [[nodiscard]] std::vector<std::pair<std::size_t, ValueId>> ranked(
        std::unordered_map<std::uint64_t, std::size_t> const& rank_of_node
    ) const;

  private:
    std::pmr::unsynchronized_pool_resource memory_;  ///< nodes come and go with every saved tensor
    std::pmr::unordered_map<c10::StorageImpl*, ValueId> value_of_{&memory_};
    std::pmr::unordered_map<ValueId, SavedValue> entries_{&memory_};  ///< entries stay put
    std::int64_t next_value_ = 0;
};

}  // namespace spillway
