// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The live values, and which of them can be stored, dropped or loaded, each ordered by next use.
#pragma once

#include "base/ids.h"
#include "base/place.h"
#include "executor/chooser.h"

#include <cstdint>
#include <memory_resource>
#include <set>
#include <unordered_map>
#include <utility>

namespace spillway {

enum class OnDevice : std::uint8_t {
    none,
    returning,  ///< room reserved and load issued, not yet bound
    held,       ///< a storage holds it
};

enum class Away : std::uint8_t { none, storing, stored };

/// One saved value. `distance` orders by next use: larger is needed later.
struct Value {
    std::int64_t size_bytes = 0;
    std::int64_t encoded_bytes = 0;  ///< what its next block takes; 0: it goes as it is
    std::int64_t distance = 0;
    Choice choice;
    OnDevice device = OnDevice::held;
    Away away = Away::none;
    BlockId block{};
    Pool pool = Pool::host;
    std::int64_t block_bytes = 0;  ///< what the block took, whatever a next one would
    bool block_is_coded = false;
    bool has_room = false;  ///< the tier granted the block's room
    CommandId store_fence{};
    CommandId load_fence{};  ///< of the decode, where there is one
    bool load_ended = true;  ///< the one of `load_fence`
    std::int32_t loads = 0;  ///< in flight; those given up are among them
    bool unshared = false;   ///< dropping it gives its bytes back
    bool orphan = false;     ///< nothing refers to it; it waits for its copies in flight
    bool fetched = false;    ///< backward had it; not read ahead again

    /// What a block of it takes from now on.
    [[nodiscard]] std::int64_t away_bytes() const {
        return encoded_bytes > 0 ? encoded_bytes : size_bytes;
    }
    /// Its store starts as soon as it can.
    [[nodiscard]] bool is_about_to_leave() const {
        return choice.advice == Advice::at_once && device == OnDevice::held && away == Away::none &&
               !fetched;
    }
};

/// Values by id, and five ordered views that `alter` keeps in step with their states.
class ValueTable {
  public:
    using Key = std::pair<std::int64_t, ValueId>;  ///< (distance, id)
    using Order = std::pmr::set<Key>;

    Value& add(ValueId id, Value value);
    [[nodiscard]] Value* find(ValueId id);
    void erase(ValueId id);

    /// Takes the value out of the views, lets `change` alter it, and files it where it belongs.
    template <typename Change>
    void alter(ValueId id, Value& value, Change&& change) {
        take_out(id, value);
        std::forward<Change>(change)(value);
        file(id, value);
    }

    /// Held, unshared, without a copy: may be stored when asked.
    [[nodiscard]] Order const& storable() const { return storable_; }
    /// As storable, but only before an allocation fails.
    [[nodiscard]] Order const& last_resort() const { return last_resort_; }
    /// On the device with a copy under way or away: can be dropped (or, returning, cancelled).
    [[nodiscard]] Order const& droppable() const { return droppable_; }
    /// Only away.
    [[nodiscard]] Order const& absent() const { return absent_; }
    /// Unreferred values whose copies are in flight.
    [[nodiscard]] Order const& orphans() const { return orphans_; }

    [[nodiscard]] std::int64_t held_bytes() const { return held_bytes_; }
    /// The largest value on the device, of equal ones the oldest; invalid: there is none.
    [[nodiscard]] ValueId largest_held() const;
    [[nodiscard]] std::int64_t droppable_bytes() const { return droppable_bytes_; }
    /// Values whose stores start as soon as they can.
    [[nodiscard]] std::int64_t about_to_leave() const { return about_to_leave_; }
    [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(values_.size()); }

  private:
    [[nodiscard]] Order* view_of(Value const& value);
    void take_out(ValueId id, Value const& value);
    void file(ValueId id, Value const& value);

    std::pmr::unsynchronized_pool_resource memory_;  ///< nodes come and go with every value
    std::pmr::unordered_map<ValueId, Value> values_{&memory_};
    Order storable_{&memory_};
    Order last_resort_{&memory_};
    Order droppable_{&memory_};
    Order absent_{&memory_};
    Order orphans_{&memory_};
    std::int64_t held_bytes_ = 0;
    std::int64_t droppable_bytes_ = 0;
    std::int64_t about_to_leave_ = 0;
};

}  // namespace spillway
