// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A plan that fits, judged by the simulator, for searches that compare plans.
#pragma once

#include "policy/forecast.h"

#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace spillway {

struct JudgedPlan {
    std::string whose{};  ///< the policy that made it; for people
    Plan plan{};
    DetailedForecast forecast{};

    /// Less is better: the time, then the peak, then what moves.
    [[nodiscard]] bool is_better_than(JudgedPlan const& other) const {
        auto const key = [](JudgedPlan const& one) {
            return std::tuple(
                one.forecast.costs.step_ns, one.forecast.costs.peak_bytes, one.forecast.moved_bytes
            );
        };
        return key(*this) < key(other);
    }
};

/// Simulates a plan. None: it is not valid for this step and machine, or it does not fit;
/// `refusal`, where that is given, says why.
[[nodiscard]] inline std::optional<JudgedPlan> judged(
    PlanRequest const& request, std::string whose, Plan plan, std::string* refusal = nullptr
) {
    if (Result<void> const fine = validate(plan, request.trace, request.machine); !fine) {
        if (refusal != nullptr) {
            *refusal = fine.error().message();
        }
        return std::nullopt;
    }
    Result<DetailedForecast> forecast = detailed_forecast(request, request.budgets, plan);
    bool const fits = forecast.ok() && forecast->costs.fits;
    if (!fits && refusal != nullptr) {
        *refusal = forecast.ok() ? forecast->costs.refusal : forecast.error().message();
    }
    return fits ? std::optional(JudgedPlan{
                      std::move(whose), std::move(plan), std::move(forecast).value()})
                : std::nullopt;
}

}  // namespace spillway
