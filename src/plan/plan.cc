// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "plan/plan.h"

#include "machine/machine.h"
#include "trace/trace.h"

#include <set>

namespace spillway {

namespace {

Error wrong(std::string what) {
    return {Errc::bad_argument, std::move(what), "plan"};
}

std::string text_of(Slot const& slot) {
    return slot.producer + ":" + std::to_string(slot.output) + "#" +
           std::to_string(slot.occurrence);
}

Result<void> check_predictions(Plan const& plan) {
    if (plan.version != 1) {
        return wrong("version " + std::to_string(plan.version) + " is not known");
    }
    if (plan.predicted_step_ns < 0 || plan.predicted_peak_bytes < 0 || plan.bound_step_ns < 0) {
        return wrong("a prediction is below 0");
    }
    if (plan.predicted_step_ns != 0 && plan.predicted_step_ns < plan.bound_step_ns) {
        return wrong("the predicted step time is below its lower bound");
    }
    return {};
}

}  // namespace

Result<void> validate(Plan const& plan, Trace const& trace, Machine const& machine) {
    if (Result<void> const fine = check_predictions(plan); !fine) {
        return fine;
    }
    std::set<Slot> known;
    for (TraceValue const& value : trace.values) {
        known.insert(value.slot);
    }
    for (auto const& [slot, fate] : plan.fates) {
        if (!known.contains(slot)) {
            return wrong("the trace has no value at " + text_of(slot));
        }
        if (fate.kind != FateKind::move) {
            continue;
        }
        if (fate.pool == Pool::device) {
            return wrong(text_of(slot) + " moves to the device, where it is");
        }
        MachineTier const* const tier = find_tier(machine, fate.pool);
        if (tier == nullptr || tier->capacity_bytes == 0) {
            return wrong(
                text_of(slot) + " moves to " + std::string(name_of(fate.pool)) +
                ", which the machine has not"
            );
        }
    }
    return {};
}

}  // namespace spillway
