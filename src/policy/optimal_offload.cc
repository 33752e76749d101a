// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/optimal_offload.h"

#include "policy/link_time.h"
#include "policy/transfer_times.h"
#include "simulator/simulator.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

bool is_chain(StepView const& step) {
    bool in_backward = false;
    for (TracePoint const& point : step.trace.points) {
        in_backward = in_backward || point.phase == Phase::backward;
        if (in_backward && (point.phase == Phase::forward || !point.saved.empty())) {
            return false;
        }
    }
    std::size_t last_need = step.trace.points.size();
    for (ValueView const& value : step.values) {
        if (!value.needed || *value.needed > last_need) {
            return false;
        }
        last_need = *value.needed;
    }
    return true;
}

/// The simulated time of one step; nothing: it does not fit.
std::optional<std::int64_t> time_of_plan(PlanRequest const& request, Plan const& plan) {
    ExecutorOptions const options{
        .chooser = ChooserKind::planned,
        .device_bytes = request.budgets.device_bytes,
        .host_bytes = request.budgets.host_bytes,
        .nvme_bytes = request.budgets.nvme_bytes};
    SimulatorOptions const how{
        .order = OrderHint::exact, .has_recipes = false, .keep_log = false, .keep_timeline = false};
    Result<SimulationResult> const run =
        simulate(request.trace, request.machine, options, &plan, how);
    return run.ok() && run->ok ? std::optional(run->total_ns) : std::nullopt;
}

}  // namespace

std::optional<std::int64_t> optimal_offload_bound(
    Trace const& trace, std::int64_t device_bytes, double out_rate, double in_rate
) {
    StepView const step(trace);
    if (!is_chain(step) || out_rate <= 0 || in_rate <= 0) {
        return std::nullopt;
    }
    std::vector<LinkDemand> forward;
    std::vector<LinkDemand> backward;
    double update_ns = 0;
    std::int64_t movable = 0;
    std::int64_t held = 0;
    for (std::size_t at = 0; at < trace.points.size(); ++at) {
        TracePoint const& point = trace.points[at];
        auto const size = [&](ValueId id) { return trace.values[id.index()].size_bytes; };
        std::int64_t here = 0;  // used or saved at this point: cannot be away
        for (ValueId const id : point.saved) {
            held += size(id);
            here += size(id);
        }
        for (ValueId const id : point.needed) {
            here += size(id);
        }
        std::int64_t const could_be_away = std::max<std::int64_t>(0, held - here);
        auto const excess =
            static_cast<double>(std::max<std::int64_t>(0, held + point.floor_bytes - device_bytes));
        LinkDemand const need{
            static_cast<double>(could_be_away), excess, static_cast<double>(point.duration_ns)};
        if (point.phase == Phase::forward) {
            forward.push_back(need);
        } else if (point.phase == Phase::backward) {
            backward.push_back(need);
        } else {
            update_ns += need.duration_ns;
        }
        for (ValueId const id : point.dropped) {
            held -= size(id);
        }
        movable = std::max(movable, held);
    }
    std::reverse(backward.begin(), backward.end());
    double const time_ns = time_behind_link(forward, out_rate / 1e9) +
                           time_behind_link(backward, in_rate / 1e9) + update_ns;
    return static_cast<std::int64_t>(time_ns);
}

Result<Plan> plan_optimal_offload(PlanRequest const& request) {
    StepView const step(request.trace);
    std::int64_t const budget = request.budgets.device_bytes;
    std::vector<ValueId> oldest;
    for (std::size_t i = 0; i < step.values.size(); ++i) {
        if (step.values[i].can_move()) {
            oldest.push_back(ValueId{static_cast<std::int64_t>(i)});
        }
    }
    std::vector<ValueId> longest = oldest;
    auto const way_ns = [&](ValueId id) {
        ValueView const& view = step.values[id.index()];
        return step.begin_ns[*view.needed] - step.begin_ns[*view.unshared + 1];
    };
    std::stable_sort(longest.begin(), longest.end(), [&](ValueId one, ValueId other) {
        return way_ns(one) > way_ns(other);
    });
    Pool const pool = request.pool();
    TransferRates const rates = transfer_rates(request.machine, pool);
    std::optional<std::pair<std::int64_t, Plan>> best;
    auto const consider = [&](Plan const& plan) {
        std::optional<std::int64_t> const time_ns = time_of_plan(request, plan);
        if (!best || (time_ns && *time_ns < best->first)) {
            best = {time_ns.value_or(INT64_MAX), plan};
        }
    };
    for (std::vector<ValueId> const& order : {oldest, longest}) {
        Plan plan;
        place_transfers(step, fewest_that_fit(step, {}, order, budget), rates, pool, plan);
        keep_the_rest(step, plan);
        consider(plan);
        // Backward waits for a slow link, so the times above come too early for what is needed
        // late, which then takes the room of what is needed first.
        for (auto& [slot, fate] : plan.fates) {
            fate.returns.reset();
        }
        consider(plan);
    }
    MachineLink const* const out = find_link(request.machine, Pool::device, pool);
    MachineLink const* const in = find_link(request.machine, pool, Pool::device);
    // What one pool does not take the executor moves to the other, on a link of its own.
    bool const is_one_pool = request.budgets.host_bytes == 0 || request.budgets.nvme_bytes == 0;
    if (budget > 0 && is_one_pool && out != nullptr && in != nullptr) {
        best->second.bound_step_ns =
            optimal_offload_bound(
                request.trace, budget, out->rate_bytes_per_s, in->rate_bytes_per_s
            )
                .value_or(0);
    }
    return std::move(best->second);
}

}  // namespace spillway
