// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/vdnn.h"

#include "policy/step_view.h"
#include "policy/transfer_times.h"
#include "simulator/simulator.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace spillway {

namespace {

enum class Which : std::uint8_t { none, conv, all };

bool is_convolution_input(TraceValue const& value) {
    TensorClass const wanted = TensorClass::convolution_input;
    return value.tensor_class == wanted ||
           std::find(value.classes.begin(), value.classes.end(), wanted) != value.classes.end();
}

std::vector<ValueId> chosen(StepView const& step, Which which) {
    std::vector<ValueId> values;
    for (std::size_t i = 0; i < step.values.size() && which != Which::none; ++i) {
        bool const is_one = which == Which::all || is_convolution_input(step.trace.values[i]);
        if (is_one && step.values[i].can_move()) {
            values.push_back(ValueId{static_cast<std::int64_t>(i)});
        }
    }
    return values;
}

/// The points at which the forward saves something, each of which begins a layer.
std::vector<std::size_t> layers_of(Trace const& trace) {
    std::vector<std::size_t> layers;
    for (std::size_t at = 0; at < trace.points.size(); ++at) {
        if (trace.points[at].phase == Phase::forward && !trace.points[at].saved.empty()) {
            layers.push_back(at);
        }
    }
    return layers;
}

/// The last save of the layer after the one in which the value became free to leave.
Slot leaving_slot(StepView const& step, std::vector<std::size_t> const& layers, ValueId id) {
    std::size_t const free_at = *step.values[id.index()].unshared;
    auto next = std::upper_bound(layers.begin(), layers.end(), free_at);
    next = std::min(next, std::prev(layers.end()));
    return step.slot_of(std::max(id, step.trace.points[*next].saved.back()));
}

/// Of all values; invalid: none is needed.
ValueId first_needed(StepView const& step) {
    ValueId first;
    for (std::size_t i = 0; i < step.values.size(); ++i) {
        ValueView const& view = step.values[i];
        if (view.needed && (!first.valid() || *view.needed < *step.values[first.index()].needed)) {
            first = ValueId{static_cast<std::int64_t>(i)};
        }
    }
    return first;
}

Plan plan_of(PlanRequest const& request, StepView const& step, Which which) {
    std::vector<ValueId> moved = chosen(step, which);
    std::vector<std::size_t> const layers = layers_of(request.trace);
    std::erase_if(moved, [&](ValueId id) {  // of the last layer, which backward needs at once
        return layers.empty() || step.values[id.index()].saved >= layers.back();
    });
    std::stable_sort(moved.begin(), moved.end(), [&](ValueId one, ValueId other) {
        return *step.values[one.index()].needed < *step.values[other.index()].needed;
    });
    Plan plan;
    ValueId before = first_needed(step);  // its backward fetches the next one
    for (ValueId const id : moved) {
        plan.fates[step.slot_of(id)] = {
            .kind = FateKind::move,
            .pool = request.pool(),
            .leaves = leaving_slot(step, layers, id),
            .returns = step.slot_of(before.valid() ? before : id)};
        before = id;
    }
    keep_the_rest(step, plan);
    return plan;
}

/// The peak that the plan itself reaches, with no budget to push it down.
Result<std::int64_t> dry_run(PlanRequest const& request, Plan const& plan) {
    ExecutorOptions const options{
        .chooser = ChooserKind::planned,
        .host_bytes = request.budgets.host_bytes,
        .nvme_bytes = request.budgets.nvme_bytes};
    SimulatorOptions const how{
        .order = OrderHint::exact, .has_recipes = false, .keep_log = false, .keep_timeline = false};
    Result<SimulationResult> const run =
        simulate(request.trace, request.machine, options, &plan, how);
    if (!run.ok()) {
        return run.error();
    }
    return run->peak_bytes[static_cast<std::size_t>(Pool::device)];
}

}  // namespace

Result<Plan> plan_vdnn_all(PlanRequest const& request) {
    return plan_of(request, StepView(request.trace), Which::all);
}

Result<Plan> plan_vdnn_conv(PlanRequest const& request) {
    StepView const step(request.trace);
    if (chosen(step, Which::conv).empty()) {
        return Error{
            Errc::unsupported,
            "it needs convolutions whose inputs can move, and the step shows none",
            ""};
    }
    return plan_of(request, step, Which::conv);
}

Result<Plan> plan_vdnn_dyn(PlanRequest const& request) {
    StepView const step(request.trace);
    for (Which const which : {Which::none, Which::conv}) {
        Plan plan = plan_of(request, step, which);
        Result<std::int64_t> const peak_bytes = dry_run(request, plan);
        if (!peak_bytes.ok()) {
            return peak_bytes.error();
        }
        if (request.budgets.device_bytes == 0 || *peak_bytes <= request.budgets.device_bytes) {
            return plan;
        }
    }
    return plan_of(request, step, Which::all);  // whether it fits: the simulation of every plan
}

}  // namespace spillway
