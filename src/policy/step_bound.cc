// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/step_bound.h"

#include "policy/solver.h"
#include "policy/step_program.h"
#include "policy/step_view.h"
#include "policy/transfer_times.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace spillway {

namespace {

/// Of the solver: a choice. A program of a thousand values takes some thousands.
constexpr std::int64_t kMostIterations = 30000;

/// Simulated times are rounded, and so are dual prices.
constexpr double kRounding = 1e-9;

}  // namespace

std::int64_t step_bound_ns(PlanRequest const& request) {
    StepView const step(request.trace);
    std::int64_t const compute_ns = step.begin_ns.back();
    if (request.budgets.device_bytes <= 0 || !has_solver()) {
        return compute_ns;
    }
    AllPools const pools = all_pools(request.machine, request.budgets);
    StepProgram const of_step = step_program(
        step,
        {.device_bytes = request.budgets.device_bytes,
         .out_rate = pools.out_rate,
         .in_rate = pools.in_rate,
         .capacity_bytes = pools.capacity_bytes}
    );
    std::optional<ProgramSolution> const best =
        of_step.has_to_leave ? solve_relaxed(of_step.program, kMostIterations) : std::nullopt;
    if (!best || !std::isfinite(best->bound)) {
        return compute_ns;
    }
    double const bound_ns = best->bound * of_step.unit_ns;
    auto const roundings = static_cast<double>(2 * step.values.size());
    return std::max(compute_ns, static_cast<std::int64_t>(bound_ns * (1 - kRounding) - roundings));
}

}  // namespace spillway
