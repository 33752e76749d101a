// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/tba.h"

#include "policy/transfer_times.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

/// Loads begin so many modules ahead.
constexpr std::size_t kModulesAhead = 2;

/// The step's modules in the order of the forward, with what of each can move.
struct Modules {
    std::vector<TbaModule> all;
    std::vector<std::vector<ValueId>> values;
};

std::string name_of(StepView const& step, std::size_t value) {
    std::string const& module = step.trace.values[value].module;
    auto const unit = step.units.of_value[value];
    return module.empty() && unit ? step.units.names[*unit] : module;
}

/// A module begins where a save is of another one than the save before.
Modules modules_of(StepView const& step, std::int64_t least_bytes) {
    Modules modules;
    std::optional<std::string> last;
    for (std::size_t at = 0; at < step.trace.points.size(); ++at) {
        TracePoint const& point = step.trace.points[at];
        if (point.phase != Phase::forward) {
            continue;
        }
        for (ValueId const id : point.saved) {
            std::string name = name_of(step, id.index());
            if (last != name) {
                modules.all.emplace_back();
                modules.values.emplace_back();
                last = std::move(name);
            }
            std::int64_t const size = step.trace.values[id.index()].size_bytes;
            if (step.values[id.index()].can_move() && size >= least_bytes) {
                modules.all.back().size_bytes += size;
                modules.values.back().push_back(id);
            }
        }
        if (!modules.all.empty()) {
            modules.all.back().forward_ns += point.duration_ns;
        }
    }
    return modules;
}

/// The value of the module that backward needs first; none: it needs none.
std::optional<ValueId> first_needed(StepView const& step, std::vector<ValueId> const& values) {
    std::optional<ValueId> first;
    for (ValueId const id : values) {
        if (!first || *step.values[id.index()].needed < *step.values[first->index()].needed) {
            first = id;
        }
    }
    return first;
}

/// Moves the modules up to the cut, and gives them their times; how many these are.
std::size_t move_first(
    PlanRequest const& request, StepView const& step, Modules const& modules, Plan& plan
) {
    Pool const pool = request.pool();
    TransferRates const rates = transfer_rates(request.machine, pool);
    std::size_t const cut = tba_cut(modules.all, rates.out);
    std::vector<ValueId> moved;
    for (std::size_t k = 0; k < cut; ++k) {
        moved.insert(moved.end(), modules.values[k].begin(), modules.values[k].end());
    }
    place_transfers(step, moved, rates, pool, plan);
    for (std::size_t k = 0; k < cut; ++k) {
        std::size_t const ahead = std::min(k + kModulesAhead, modules.all.size() - 1);
        std::optional<ValueId> const trigger = first_needed(step, modules.values[ahead]);
        for (ValueId const id : modules.values[k]) {
            bool const is_before =
                trigger && *step.values[trigger->index()].needed <= *step.values[id.index()].needed;
            if (is_before) {
                plan.fates[step.slot_of(id)].returns = step.slot_of(*trigger);
            }
        }
    }
    return cut;
}

}  // namespace

std::size_t tba_cut(std::vector<TbaModule> const& modules, double write_rate) {
    double forward_ns = 0;
    for (TbaModule const& module : modules) {
        forward_ns += static_cast<double>(module.forward_ns);
    }
    double bytes_before = 0;
    double before_ns = 0;
    for (std::size_t k = 0; k < modules.size(); ++k) {
        auto const own_bytes = static_cast<double>(modules[k].size_bytes);
        double const rest_ns = 3 * forward_ns - 2 * before_ns;
        if (k + 1 == modules.size() ||
            (bytes_before + 2 * own_bytes) * 1e9 > write_rate * rest_ns) {
            return k;
        }
        bytes_before += own_bytes;
        before_ns += static_cast<double>(modules[k].forward_ns);
    }
    return 0;
}

Result<Plan> plan_tba(PlanRequest const& request) {
    StepView const step(request.trace);
    Modules const modules =
        modules_of(step, static_cast<std::int64_t>(request.parameter("least_bytes")));
    Plan plan;
    (void)move_first(request, step, modules, plan);
    keep_the_rest(step, plan);
    return plan;
}

Result<Plan> plan_tba_recompute(PlanRequest const& request) {
    StepView const step(request.trace);
    Modules const modules =
        modules_of(step, static_cast<std::int64_t>(request.parameter("least_bytes")));
    Plan plan;
    std::size_t const cut = move_first(request, step, modules, plan);
    std::vector<ValueId> moved;
    std::vector<ValueId> middle;
    for (std::size_t k = 0; k + 1 < modules.all.size(); ++k) {
        for (ValueId const id : modules.values[k]) {
            if (k < cut) {
                moved.push_back(id);
            } else if (step.trace.values[id.index()].recipe) {
                middle.push_back(id);
            }
        }
    }
    std::int64_t const budget = request.budgets.device_bytes;
    for (ValueId const id : budget == 0 ? middle : fewest_that_fit(step, moved, middle, budget)) {
        plan.fates[step.slot_of(id)] = {.kind = FateKind::recompute};
    }
    keep_the_rest(step, plan);
    return plan;
}

}  // namespace spillway
