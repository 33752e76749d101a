// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/step_bound.h"

#include "base/place.h"
#include "policy/solver.h"
#include "policy/step_program.h"
#include "policy/step_view.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace spillway {

namespace {

/// Of the solver: a choice. A program of a thousand values takes some thousands.
constexpr std::int64_t kMostIterations = 30000;

/// Simulated times are rounded, and so are dual prices.
constexpr double kRounding = 1e-9;

void add_pool(Machine const& machine, std::int64_t budget, Lane out, Lane in, StepTerms& terms) {
    MachineLink const* const there = link_of(machine, out);
    MachineLink const* const back = link_of(machine, in);
    if (budget > 0 && there != nullptr && back != nullptr) {
        terms.out_rate += there->rate_bytes_per_s;
        terms.in_rate += back->rate_bytes_per_s;
        terms.capacity_bytes += budget;
    }
}

}  // namespace

std::int64_t step_bound_ns(PlanRequest const& request) {
    StepView const step(request.trace);
    std::int64_t const compute_ns = step.begin_ns.back();
    if (request.budgets.device_bytes <= 0 || !has_solver()) {
        return compute_ns;
    }
    StepTerms terms{.device_bytes = request.budgets.device_bytes};
    Machine const& machine = request.machine;
    add_pool(machine, request.budgets.host_bytes, Lane::copy_out, Lane::copy_in, terms);
    add_pool(machine, request.budgets.nvme_bytes, Lane::nvme_write, Lane::nvme_read, terms);
    StepProgram const of_step = step_program(step, terms);
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
