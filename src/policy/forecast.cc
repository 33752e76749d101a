// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/forecast.h"

#include "simulator/simulator.h"

#include <utility>
#include <vector>

namespace spillway {

Result<Forecast> forecast(PlanRequest const& request, Budgets const& budgets, Plan const& plan) {
    ExecutorOptions const options{
        .chooser = ChooserKind::planned,
        .device_bytes = budgets.device_bytes,
        .host_bytes = budgets.host_bytes,
        .nvme_bytes = budgets.nvme_bytes};
    SimulatorOptions how{.order = OrderHint::exact, .keep_log = false, .keep_timeline = false};
    Forecast forecast;
    std::int64_t first_ns = 0;
    std::vector<std::int64_t> first_waits_ns(request.trace.values.size(), 0);
    for (std::int64_t const steps : {1, 2}) {
        how.steps = steps;
        Result<SimulationResult> const result =
            simulate(request.trace, request.machine, options, &plan, how);
        if (!result.ok()) {
            return result.error();
        }
        if (!result->ok) {
            return Forecast{.fits = false, .refusal = result->refusal};
        }
        std::int64_t const program_ns = result->compute_ns + result->recompute_ns +
                                        result->slowed_ns + result->stall_need_ns +
                                        result->stall_room_ns;
        forecast.step_ns = program_ns - std::exchange(first_ns, program_ns);
        forecast.peak_bytes = result->peak_bytes[static_cast<std::size_t>(Pool::device)];
        forecast.waits_ns.clear();
        for (std::size_t i = 0; i < first_waits_ns.size(); ++i) {
            std::int64_t const waited_ns =
                result->return_waits_ns[i] -
                std::exchange(first_waits_ns[i], result->return_waits_ns[i]);
            if (waited_ns > 0) {
                forecast.waits_ns[request.trace.values[i].slot] = waited_ns;
            }
        }
    }
    return forecast;
}

}  // namespace spillway
