// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/observed_plan.h"

#include "simulator/simulator.h"

#include <string>

namespace spillway {

Result<Plan> observed_plan(PlanRequest const& request, EvictionRule rule) {
    ExecutorOptions const options{
        .chooser = ChooserKind::online,
        .device_bytes = request.budgets.device_bytes,
        .host_bytes = request.budgets.host_bytes,
        .nvme_bytes = request.budgets.nvme_bytes,
        .eviction = rule};
    SimulatorOptions const how{
        .steps = 2, .order = OrderHint::exact, .keep_log = false, .face = request.face};
    Result<SimulationResult> const run =
        simulate(request.trace, request.machine, options, nullptr, how);
    if (!run.ok()) {
        return run.error();
    }
    if (!run->ok) {
        return Error{Errc::out_of_memory, run->refusal, ""};
    }
    Plan plan;
    std::size_t const values = request.trace.values.size();
    for (TraceValue const& value : request.trace.values) {
        plan.fates.try_emplace(value.slot);
    }
    for (Span const& span : run->timeline.spans) {
        // The second step's values are numbered after the first one's.
        if (!span.value.valid() || span.value.index() < values) {
            continue;
        }
        Fate& fate = plan.fates[request.trace.values[span.value.index() % values].slot];
        if (span.lane == Lane::copy_in || span.lane == Lane::nvme_read) {
            Pool const pool = span.lane == Lane::copy_in ? Pool::host : Pool::nvme;
            fate = {.kind = FateKind::move, .pool = pool};
        } else if (span.lane == Lane::compute && span.what == "recompute") {
            fate = {.kind = FateKind::recompute};
        }
    }
    return plan;
}

}  // namespace spillway
