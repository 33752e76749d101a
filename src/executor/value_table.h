// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The live values, and which of them can be stored, dropped or loaded, each ordered by next use.
#pragma once

#include "base/ids.h"
#include "executor/value.h"

#include <cstdint>
#include <memory_resource>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

/// Values by id, and ordered views that `alter` keeps in step with their states.
///
/// Thread  not thread-safe; the executor that owns it is used under its owner's mutex
class ValueTable {
  public:
    using Key = std::pair<std::int64_t, ValueId>;  ///< (distance, id)
    using Order = std::pmr::set<Key>;

    Value& add(ValueId id, Value value);
    [[nodiscard]] Value* find(ValueId id);
    [[nodiscard]] Value const* find(ValueId id) const;
    void erase(ValueId id);

    /// Takes the value out of the views, lets `change` alter it, and files it where it belongs.
    template <typename Change>
    void alter(ValueId id, Value& value, Change&& change) {
        bool const could_go = value.could_go_by_recipe();
        bool const was_sound = value.is_sound_source();
        take_out(id, value);
        std::forward<Change>(change)(value);
        file(id, value);
        if (value.could_go_by_recipe() && !could_go) {
            look_again_at(id);
        }
        if (value.is_sound_source() != was_sound) {
            look_again_at_users(value);
        }
    }

    /// As `alter`, of the distance alone.
    void set_distance(ValueId id, Value& value, std::int64_t distance);

    /// Held, unshared, without a copy: may be stored ahead, and when asked.
    [[nodiscard]] Order const& storable() const { return storable_; }
    /// As storable, but not ahead: these wait for their recipes.
    [[nodiscard]] Order const& waiting() const { return waiting_; }
    /// As storable, but only before an allocation fails.
    [[nodiscard]] Order const& last_resort() const { return last_resort_; }
    /// On the device with a copy under way or away: can be dropped (or, returning, cancelled).
    [[nodiscard]] Order const& droppable() const { return droppable_; }
    /// Only away, and to be read ahead.
    [[nodiscard]] Order const& absent() const { return absent_; }
    /// Unreferred values whose copies are in flight.
    [[nodiscard]] Order const& orphans() const { return orphans_; }

    /// They may go by their recipes now, as far as was looked again; may be stored, too.
    [[nodiscard]] Order const& ready() const { return ready_; }
    /// Of those that go by their recipes before anything is moved.
    [[nodiscard]] std::int64_t ready_first_bytes() const { return ready_first_bytes_; }
    /// Of those the ones that the plan has go now.
    [[nodiscard]] std::pmr::set<ValueId> const& due_by_plan() const { return due_by_plan_; }
    /// Whether it may go by its recipe may have changed.
    void look_again_at(ValueId id);
    void look_again_at_users(Value const& value);
    /// Those of which that is so; each once.
    [[nodiscard]] std::vector<ValueId> take_unsure() { return std::exchange(unsure_, {}); }
    /// Gone without a copy.
    [[nodiscard]] std::pmr::set<ValueId> const& by_recipe() const { return by_recipe_; }

    /// The most bytes of these at once that were not on their way back.
    [[nodiscard]] std::int64_t gone_by_recipe_peak_bytes() const {
        return gone_by_recipe_peak_bytes_;
    }

    [[nodiscard]] std::int64_t held_bytes() const { return held_bytes_; }
    /// Of values from `first` on; looks at all.
    [[nodiscard]] std::int64_t held_bytes_from(ValueId first) const;
    /// The largest value on the device, of equal ones the oldest; invalid: there is none.
    [[nodiscard]] ValueId largest_held() const;
    [[nodiscard]] std::int64_t droppable_bytes() const { return droppable_bytes_; }
    /// Values whose stores start as soon as they can.
    [[nodiscard]] std::int64_t about_to_leave() const { return about_to_leave_; }
    [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(values_.size()); }
    /// Saves and needs so far: a clock of the program's that does not depend on its speed.
    [[nodiscard]] std::int64_t uses() const { return uses_; }
    std::int64_t count_use() { return ++uses_; }

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
    Order waiting_{&memory_};
    Order ready_{&memory_};
    std::pmr::set<ValueId> due_by_plan_{&memory_};
    std::vector<ValueId> unsure_;
    std::int64_t ready_first_bytes_ = 0;
    std::pmr::set<ValueId> by_recipe_{&memory_};
    std::int64_t gone_by_recipe_bytes_ = 0;
    std::int64_t gone_by_recipe_peak_bytes_ = 0;
    std::int64_t held_bytes_ = 0;
    std::int64_t droppable_bytes_ = 0;
    std::int64_t about_to_leave_ = 0;
    std::int64_t uses_ = 0;
};

}  // namespace spillway
