// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// When each value of a step can be away, and what is too much where it is not: what the program of
// a step is made of.
#pragma once

#include "policy/step_view.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace spillway {

/// Points are places in `Trace::points`.
struct AwayTime {
    std::size_t value = 0;
    double bytes = 0;
    std::size_t unshared = 0;             ///< it can be gone when this has ended
    std::size_t needed = 0;               ///< it is back when this begins
    std::optional<std::size_t> remade{};  ///< it can be gone by its recipe when this has ended
    double remake_ns = 0;
    std::vector<std::size_t> earlier{};  ///< points before `needed` at which it may have to be back
                                         ///< for what is made of it; in order
};

struct AwayTimes {
    std::vector<AwayTime> all{};                         ///< in the order of their values
    std::vector<std::optional<std::size_t>> place_of{};  ///< in `all`, by value
    std::vector<double> excess_bytes{};  ///< by point, if all stays; below 0: there is room
};

/// Of values that a plan can move. `earlier` is traced from need to source (STR), of many points a
/// few, each of which stands for those up to the next.
[[nodiscard]] AwayTimes times_for_plans(StepView const& step, std::int64_t device_bytes);

/// Of all values that an executor may let go, whatever the plan: none is away longer. What it may
/// let go for nothing, since nobody needs it or it is unshared anew after its need, is no excess
/// from then on. A recipe's sources do not matter.
[[nodiscard]] AwayTimes times_for_bounds(StepView const& step, std::int64_t device_bytes);

/// The point from which a value can be gone by its recipe: where it and all of its sources are the
/// saved graph's alone. None: never.
[[nodiscard]] std::optional<std::size_t> gone_by_recipe(StepView const& step, ValueId id);

}  // namespace spillway
