// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/forecast.h"

#include "simulator/simulator.h"

namespace spillway {

Result<Forecast> forecast(PlanRequest const& request, Budgets const& budgets, Plan const& plan) {
    ExecutorOptions const options{
        .chooser = ChooserKind::planned,
        .device_bytes = budgets.device_bytes,
        .host_bytes = budgets.host_bytes,
        .nvme_bytes = budgets.nvme_bytes};
    SimulatorOptions const how{
        .steps = 2, .order = OrderHint::exact, .keep_log = false, .keep_timeline = false};
    Result<SimulationResult> const result =
        simulate(request.trace, request.machine, options, &plan, how);
    if (!result.ok()) {
        return result.error();
    }
    if (!result->ok) {
        return Forecast{.fits = false, .refusal = result->refusal};
    }
    return Forecast{
        .step_ns = result->program_ns() - result->before_last_step_ns,
        .peak_bytes = result->peak_bytes[static_cast<std::size_t>(Pool::device)]};
}

}  // namespace spillway
