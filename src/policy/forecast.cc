// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/forecast.h"

#include "simulator/simulator.h"

#include <utility>
#include <vector>

namespace spillway {

namespace {

Result<SimulationResult> two_steps(
    PlanRequest const& request, Budgets const& budgets, Plan const& plan, bool keep_timeline
) {
    ExecutorOptions const options{
        .chooser = ChooserKind::planned,
        .device_bytes = budgets.device_bytes,
        .host_bytes = budgets.host_bytes,
        .nvme_bytes = budgets.nvme_bytes};
    SimulatorOptions const how{
        .steps = 2,
        .order = OrderHint::exact,
        .has_recipes = uses_recipes(plan),
        .keep_log = false,
        .keep_timeline = keep_timeline,
        .face = request.face};
    return simulate(request.trace, request.machine, options, &plan, how);
}

Forecast forecast_of(Trace const& trace, SimulationResult const& result) {
    if (!result.ok) {
        return {.fits = false, .refusal = result.refusal};
    }
    Forecast costs{
        .step_ns = result.program_ns() - result.before_last_step_ns,
        .peak_bytes = result.peak_bytes[static_cast<std::size_t>(Pool::device)]};
    for (std::size_t i = 0; i < result.return_waits_ns.size(); ++i) {
        if (result.return_waits_ns[i] > 0) {
            costs.waits_ns[trace.values[i].slot] = result.return_waits_ns[i];
        }
    }
    return costs;
}

}  // namespace

Result<Forecast> forecast(PlanRequest const& request, Budgets const& budgets, Plan const& plan) {
    Result<SimulationResult> const result = two_steps(request, budgets, plan, false);
    if (!result.ok()) {
        return result.error();
    }
    return forecast_of(request.trace, *result);
}

Result<DetailedForecast> detailed_forecast(
    PlanRequest const& request, Budgets const& budgets, Plan const& plan
) {
    Result<SimulationResult> const result = two_steps(request, budgets, plan, true);
    if (!result.ok()) {
        return result.error();
    }
    std::size_t const values = request.trace.values.size();
    DetailedForecast all{
        .costs = forecast_of(request.trace, *result),
        .moved_bytes = result->stored_bytes + result->loaded_bytes,
        .delays_ns = std::vector<std::int64_t>(values)};
    for (Span const& span : result->timeline.spans) {
        // The second step's: its values' numbers follow the first one's.
        bool const is_delay = span.lane == Lane::compute && span.value.valid() &&
                              span.value.index() >= values && span.value.index() < 2 * values;
        if (is_delay) {
            all.delays_ns[span.value.index() - values] += span.end_ns - span.start_ns;
        }
    }
    return all;
}

}  // namespace spillway
