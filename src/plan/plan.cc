// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "plan/plan.h"

#include "machine/machine.h"
#include "plan/planned_codec.h"
#include "trace/trace.h"

#include <algorithm>
#include <array>
#include <map>
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
    if (plan.version != Plan().version) {
        return wrong("version " + std::to_string(plan.version) + " is not known");
    }
    if (plan.device_bytes < 0) {
        return wrong("its device budget is below 0");
    }
    if (plan.predicted_step_ns < 0 || plan.predicted_peak_bytes < 0 || plan.bound_step_ns < 0) {
        return wrong("a prediction is below 0");
    }
    if (plan.predicted_step_ns != 0 && plan.predicted_step_ns < plan.bound_step_ns) {
        return wrong("the predicted step time is below its lower bound");
    }
    return {};
}

/// When the trace saves a slot's value, and when it first needs it after its last save; by point.
struct Times {
    std::int64_t saved = -1;
    std::int64_t needed = -1;  ///< -1: never
};

std::map<Slot, Times> times_of(Trace const& trace) {
    std::map<Slot, Times> times;
    for (TraceValue const& value : trace.values) {
        times[value.slot] = {};
    }
    for (std::int64_t point = 0; point < std::ssize(trace.points); ++point) {
        TracePoint const& at = trace.points[static_cast<std::size_t>(point)];
        for (ValueId const id : at.needed) {
            Times& of = times[trace.values[id.index()].slot];
            of.needed = of.needed < 0 ? point : of.needed;
        }
        for (ValueId const id : at.saved) {
            times[trace.values[id.index()].slot] = {point, -1};
        }
    }
    return times;
}

Result<void> check_move(
    Slot const& slot, Fate const& fate, std::map<Slot, Times> const& times, Machine const& machine
) {
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
    Times const& own = times.at(slot);
    if (fate.returns) {
        auto const at = times.find(*fate.returns);
        if (at == times.end() || at->second.needed < 0) {
            return wrong(
                text_of(slot) + " returns at " + text_of(*fate.returns) + ", which is never needed"
            );
        }
        if (own.needed >= 0 && at->second.needed > own.needed) {
            return wrong(
                text_of(slot) + " returns at " + text_of(*fate.returns) +
                ", which is needed after it"
            );
        }
    }
    return {};
}

Result<void> check_leaving(Slot const& slot, Fate const& fate, std::map<Slot, Times> const& times) {
    if (!fate.leaves) {
        return {};
    }
    auto const at = times.find(*fate.leaves);
    std::string const what = text_of(slot) + " leaves at " + text_of(*fate.leaves);
    if (at == times.end()) {
        return wrong(what + ", which the trace lacks");
    }
    if (at->second.saved < times.at(slot).saved) {
        return wrong(what + ", before it is saved");
    }
    return {};
}

/// Of every value of a slot: it may be saved more than once.
Result<void> check_codecs(Plan const& plan, Trace const& trace) {
    for (auto const& [slot, fate] : plan.fates) {
        if (!fate.codec.empty() && fate.kind != FateKind::move) {
            return wrong(text_of(slot) + " has a codec, and does not move");
        }
    }
    for (TraceValue const& value : trace.values) {
        auto const at = plan.fates.find(value.slot);
        if (at == plan.fates.end() || at->second.codec.empty()) {
            continue;
        }
        Result<std::int64_t> const bytes = coded_bytes(at->second.codec, value);
        if (!bytes.ok()) {
            return wrong(text_of(value.slot) + ": " + bytes.error().message());
        }
    }
    return {};
}

}  // namespace

std::string_view name_of(FateKind kind) {
    constexpr std::array<std::string_view, 3> kNames{"keep", "move", "recompute"};
    return kNames[static_cast<std::size_t>(kind)];
}

bool makes_again(Plan const& plan) {
    return std::any_of(plan.fates.begin(), plan.fates.end(), [](auto const& entry) {
        return entry.second.kind == FateKind::recompute;
    });
}

bool uses_recipes(Plan const& plan) {
    return plan.fates.empty() || makes_again(plan);
}

Result<void> validate(Plan const& plan, Trace const& trace, Machine const& machine) {
    if (Result<void> const fine = check_predictions(plan); !fine) {
        return fine;
    }
    if (Result<void> const fine = check_codecs(plan, trace); !fine) {
        return fine;
    }
    std::map<Slot, Times> const times = times_of(trace);
    std::set<Slot> with_recipe;
    for (TraceValue const& value : trace.values) {
        if (value.recipe) {
            with_recipe.insert(value.slot);
        }
    }
    for (auto const& [slot, fate] : plan.fates) {
        if (!times.contains(slot)) {
            return wrong("the trace has no value at " + text_of(slot));
        }
        if (fate.kind == FateKind::keep) {
            if (fate.leaves || fate.returns) {
                return wrong(text_of(slot) + " is kept, and has a time to leave or return");
            }
            continue;
        }
        if (Result<void> const fine = check_leaving(slot, fate, times); !fine) {
            return fine;
        }
        if (fate.kind == FateKind::recompute && (fate.returns || !with_recipe.contains(slot))) {
            return wrong(
                text_of(slot) + (fate.returns ? " is made again, and has a time to return"
                                              : " is made again, and the trace has no recipe of it")
            );
        }
        if (fate.kind == FateKind::recompute) {
            continue;
        }
        if (Result<void> const fine = check_move(slot, fate, times, machine); !fine) {
            return fine;
        }
    }
    return {};
}

}  // namespace spillway
