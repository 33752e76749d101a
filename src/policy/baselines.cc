// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/baselines.h"

#include "policy/transfer_times.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

std::vector<ValueId> movable(StepView const& step) {
    std::vector<ValueId> values;
    for (std::size_t i = 0; i < step.values.size(); ++i) {
        if (step.values[i].can_move()) {
            values.push_back(ValueId{static_cast<std::int64_t>(i)});
        }
    }
    return values;
}

Plan plan_of(PlanRequest const& request, StepView const& step, std::vector<ValueId> const& moved) {
    Plan plan;
    Pool const pool = request.pool();
    place_transfers(step, moved, transfer_rates(request.machine, pool), pool, plan);
    keep_the_rest(step, plan);
    return plan;
}

}  // namespace

Result<Plan> plan_offload_all(PlanRequest const& request) {
    StepView const step(request.trace);
    return plan_of(request, step, movable(step));
}

Result<Plan> plan_largest_first(PlanRequest const& request) {
    StepView const step(request.trace);
    std::int64_t const budget = request.budgets.device_bytes;
    std::vector<ValueId> all = movable(step);
    std::stable_sort(all.begin(), all.end(), [&](ValueId one, ValueId other) {
        return request.trace.values[one.index()].size_bytes >
               request.trace.values[other.index()].size_bytes;
    });
    if (budget == 0) {
        return plan_of(request, step, {});
    }
    return plan_of(request, step, fewest_that_fit(step, {}, std::move(all), budget));
}

}  // namespace spillway
