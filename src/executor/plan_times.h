// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// When values leave and return by the plan: at the saves and needs of the slots that it names.
#pragma once

#include "base/ids.h"
#include "plan/plan.h"
#include "trace/slot.h"

#include <cstdint>
#include <map>
#include <vector>

namespace spillway {

/// A *place* is a slot that the plan names, as a value's own or as a time. Of each the latest saved
/// value is known: two passes that are under way at once have their times by the later one.
///
/// Thread  not thread-safe; owned by one executor
class PlanTimes {
  public:
    static constexpr std::int32_t kNoPlace = -1;

    void take_plan(Plan const& plan);

    [[nodiscard]] std::int32_t place_of(Slot const& slot) const;
    /// Whether the place's own value waits for another's save before it leaves, and for another's
    /// need before it returns.
    [[nodiscard]] bool has_leave(std::int32_t place) const { return at(place).has_leave; }
    [[nodiscard]] bool has_return(std::int32_t place) const { return at(place).has_return; }

    void saved(std::int32_t place, ValueId value) {
        places_[static_cast<std::size_t>(place)].value = value;
    }
    /// Values whose time to leave is the save at this place.
    [[nodiscard]] std::vector<ValueId> leaving_at(std::int32_t place) const {
        return values_of(at(place).leaving);
    }
    /// Values whose time to return is the need at this place.
    [[nodiscard]] std::vector<ValueId> returning_at(std::int32_t place) const {
        return values_of(at(place).returning);
    }

  private:
    struct Place {
        std::vector<std::int32_t> leaving;  ///< places, in the order of their slots
        std::vector<std::int32_t> returning;
        bool has_leave = false;
        bool has_return = false;
        ValueId value;
    };

    [[nodiscard]] Place const& at(std::int32_t place) const {
        return places_[static_cast<std::size_t>(place)];
    }
    [[nodiscard]] std::int32_t add(Slot const& slot);
    [[nodiscard]] std::vector<ValueId> values_of(std::vector<std::int32_t> const& places) const;

    std::map<Slot, std::int32_t> numbers_;
    std::vector<Place> places_;
};

}  // namespace spillway
