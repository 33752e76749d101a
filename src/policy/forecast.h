// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a plan would cost: the simulator's answer to it, for policies that try several.
#pragma once

#include "base/result.h"
#include "policy/planner.h"

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

struct Forecast {
    bool fits = true;
    std::string refusal{};  ///< where it does not fit: what the program would get
    std::int64_t step_ns = 0;
    std::int64_t peak_bytes = 0;  ///< of the device
    ReturnWaits waits_ns{};       ///< for what returned late in the second step

    bool operator==(Forecast const&) const = default;
};

/// A forecast, and what its time is of: by value, in nanoseconds, how long the program waits for
/// its copies and has it made again.
struct DetailedForecast {
    Forecast costs{};
    std::int64_t moved_bytes = 0;  ///< out and in, of both steps
    std::vector<std::int64_t> delays_ns{};
};

/// Two steps of the trace under `budgets`; the time is the second one's, since the first begins
/// with an executor that knows nothing, and ends with the program, not with the last copy.
///
/// Fails   as `simulate` does
[[nodiscard]] Result<Forecast> forecast(
    PlanRequest const& request, Budgets const& budgets, Plan const& plan
);

/// The same with its causes. Takes some more time.
[[nodiscard]] Result<DetailedForecast> detailed_forecast(
    PlanRequest const& request, Budgets const& budgets, Plan const& plan
);

}  // namespace spillway
