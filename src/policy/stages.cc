// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/stages.h"

#include "policy/forecast.h"
#include "policy/transfer_times.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

namespace spillway {

namespace {

/// A value below this share of its unit's bytes stays: a choice.
constexpr std::int64_t kSmallShare = 256;

/// Plans for less room that are no quicker, before no more are tried: a choice.
constexpr int kMostSlower = 4;

/// Of the room that there is, tried in turn; of chains of more stages fewer, so that 10,000 values
/// take seconds.
constexpr std::array<std::int64_t, 10> kRoomPercents{100, 95, 90, 80, 70, 60, 50, 35, 20, 0};
constexpr std::size_t kStagesASkip = 300;
constexpr std::size_t kLongestStride = 4;
constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();

TraceValue const& value_of(StepView const& step, ValueId id) {
    return step.trace.values[id.index()];
}

void add_value(StepView const& step, ValueId id, Stage& stage) {
    TraceValue const& value = value_of(step, id);
    if (!value.recipe) {
        stage.others.push_back(id);
        stage.other_bytes += value.size_bytes;
        return;
    }
    stage.tape.push_back(id);
    stage.tape_bytes += value.size_bytes;
    stage.tape_ns += value.recipe->duration_ns;
}

void set_input(StepView const& step, ValueId id, Stage& stage) {
    TraceValue const& value = value_of(step, id);
    stage.input = id;
    stage.input_bytes = value.size_bytes;
    stage.input_has_recipe = value.recipe.has_value();
    stage.input_ns = value.recipe ? value.recipe->duration_ns : 0;
}

/// By value. What no module is known of and is saved between two units belongs to the next: a norm
/// that is written in single operators saves the block's input before any parameter tells where.
std::vector<std::optional<std::size_t>> units_of_values(StepView const& step) {
    std::vector<std::optional<std::size_t>> units = step.units.of_value;
    auto const first =
        std::find_if(units.begin(), units.end(), [](auto const& unit) { return unit.has_value(); });
    std::optional<std::size_t> next;
    for (auto at = units.end(); at != first; --at) {
        std::optional<std::size_t>& unit = *std::prev(at);
        next = unit ? unit : next;
        unit = next;
    }
    return units;
}

void add_times(StepView const& step, std::vector<Stage>& stages) {
    for (std::size_t at = 0; at < step.trace.points.size(); ++at) {
        TracePoint const& point = step.trace.points[at];
        std::optional<std::size_t> const unit = step.units.of_point[at];
        if (unit) {
            Stage& stage = stages[*unit];
            (point.phase == Phase::forward ? stage.forward_ns : stage.backward_ns) +=
                point.duration_ns;
        }
    }
}

std::vector<ValueId> values_of(Stage const& stage) {
    std::vector<ValueId> values = stage.tape;
    values.insert(values.end(), stage.others.begin(), stage.others.end());
    if (stage.input) {
        values.push_back(*stage.input);
    }
    return values;
}

/// By point: the stage whose it is, by its unit or that of the point before; `count` for those
/// between the last one's forward and its backward. None: an update's, where no stage has anything.
std::vector<std::optional<std::size_t>> stages_of_points(StepView const& step, std::size_t count) {
    std::vector<TracePoint> const& points = step.trace.points;
    std::size_t forward_end = 0;
    std::size_t backward_begin = points.size();
    for (std::size_t at = 0; at < points.size(); ++at) {
        if (step.units.of_point[at] && points[at].phase == Phase::forward) {
            forward_end = at + 1;
        } else if (step.units.of_point[at] && points[at].phase == Phase::backward) {
            backward_begin = std::min(backward_begin, at);
        }
    }
    std::vector<std::optional<std::size_t>> owners(points.size());
    std::size_t last = 0;
    for (std::size_t at = 0; at < points.size(); ++at) {
        last = step.units.of_point[at].value_or(last);
        if (points[at].phase != Phase::update) {
            owners[at] = forward_end <= at && at < backward_begin ? count : last;
        }
    }
    return owners;
}

/// By point: the floor, and what is held of values that no stage has.
std::vector<std::int64_t> bytes_beside_by_point(
    StepView const& step, std::vector<Stage> const& stages
) {
    std::vector<bool> is_staged(step.values.size());
    for (Stage const& stage : stages) {
        for (ValueId const id : values_of(stage)) {
            is_staged[id.index()] = true;
        }
    }
    auto const size = [&](ValueId id) {
        return is_staged[id.index()] ? 0 : value_of(step, id).size_bytes;
    };
    std::vector<std::int64_t> bytes;
    std::int64_t held_bytes = 0;
    for (TracePoint const& point : step.trace.points) {
        for (ValueId const id : point.saved) {
            held_bytes += size(id);
        }
        bytes.push_back(held_bytes + point.floor_bytes);
        for (ValueId const id : point.dropped) {
            held_bytes -= size(id);
        }
    }
    return bytes;
}

/// By stage, and last of what is between forward and backward: the most at any of its points. A
/// stage without points counts as the largest.
std::vector<std::int64_t> bytes_beside_each(
    StepView const& step, std::vector<Stage> const& stages
) {
    std::vector<std::int64_t> const of_points = bytes_beside_by_point(step, stages);
    std::vector<std::optional<std::size_t>> const owners = stages_of_points(step, stages.size());
    constexpr std::int64_t kNone = -1;
    std::vector<std::int64_t> bytes(stages.size() + 1, kNone);
    for (std::size_t at = 0; at < owners.size(); ++at) {
        if (owners[at]) {
            bytes[*owners[at]] = std::max(bytes[*owners[at]], of_points[at]);
        }
    }
    std::int64_t const most =
        std::max<std::int64_t>(0, *std::max_element(bytes.begin(), bytes.end()));
    std::replace(bytes.begin(), bytes.end() - 1, kNone, most);
    if (bytes.back() == kNone) {
        bytes.back() = *std::min_element(bytes.begin(), bytes.end() - 1);
    }
    return bytes;
}

/// Above the least of all.
void add_bytes_beside(StepView const& step, std::vector<Stage>& stages) {
    std::vector<std::int64_t> const bytes = bytes_beside_each(step, stages);
    std::int64_t const least = *std::min_element(bytes.begin(), bytes.end());
    for (std::size_t i = 0; i < stages.size(); ++i) {
        stages[i].beside_bytes = bytes[i] - least;
    }
}

}  // namespace

std::vector<Stage> stages_of(StepView const& step) {
    std::size_t const count = step.units.names.size();
    std::vector<Stage> stages(count);
    std::vector<std::optional<std::size_t>> const units = units_of_values(step);
    std::vector<std::int64_t> unit_bytes(count);
    std::vector<bool> has_saved(count);
    for (std::size_t i = 0; i < units.size(); ++i) {
        if (units[i]) {
            unit_bytes[*units[i]] += step.trace.values[i].size_bytes;
        }
    }
    for (std::size_t i = 0; i < units.size(); ++i) {
        if (!units[i]) {
            continue;
        }
        ValueId const id{static_cast<std::int64_t>(i)};
        bool const is_first = !has_saved[*units[i]];
        bool const is_large =
            step.trace.values[i].size_bytes >= unit_bytes[*units[i]] / kSmallShare;
        has_saved[*units[i]] = has_saved[*units[i]] || is_large;
        if (is_large && is_first && step.values[i].can_move()) {
            set_input(step, id, stages[*units[i]]);
        } else if (is_large && step.values[i].can_move()) {
            add_value(step, id, stages[*units[i]]);
        }
    }
    add_times(step, stages);
    add_bytes_beside(step, stages);
    return stages;
}

Result<std::vector<Stage>> stages_with_recipes(StepView const& step) {
    std::vector<Stage> stages = stages_of(step);
    if (stages.empty()) {
        return Error{
            Errc::unsupported, "it needs layers, and nothing in the step repeats", "trace"};
    }
    bool const has_recipes = std::any_of(stages.begin(), stages.end(), [](Stage const& stage) {
        return !stage.tape.empty() || stage.input_has_recipe;
    });
    if (!has_recipes) {
        return Error{
            Errc::unsupported,
            "it makes layers again, and no saved tensor of a layer that backward needs has a "
            "recipe",
            "trace"};
    }
    return stages;
}

Plan plan_of_stages(
    PlanRequest const& request,
    StepView const& step,
    std::vector<Stage> const& stages,
    std::vector<StageFate> const& fates
) {
    Plan plan;
    std::vector<ValueId> moved;
    for (std::size_t i = 0; i < stages.size(); ++i) {
        Stage const& stage = stages[i];
        if (fates[i] == StageFate::move) {
            std::vector<ValueId> const values = values_of(stage);
            moved.insert(moved.end(), values.begin(), values.end());
            continue;
        }
        if (fates[i] == StageFate::move_input && stage.input) {
            moved.push_back(*stage.input);
        }
        if (fates[i] == StageFate::inner && stage.input_has_recipe) {
            plan.fates[step.slot_of(*stage.input)] = {.kind = FateKind::recompute};
        }
        if (fates[i] != StageFate::keep) {
            for (ValueId const id : stage.tape) {
                plan.fates[step.slot_of(id)] = {.kind = FateKind::recompute};
            }
        }
    }
    place_transfers(
        step, moved, transfer_rates(request.machine, request.pool()), request.pool(), plan
    );
    keep_the_rest(step, plan);
    return plan;
}

std::int64_t bytes_beside_stages(StepView const& step, std::vector<Stage> const& stages) {
    std::vector<std::int64_t> const bytes = bytes_beside_each(step, stages);
    return *std::min_element(bytes.begin(), bytes.end());
}

std::int64_t most_bytes_beside(std::vector<Stage> const& stages) {
    std::int64_t most = 0;
    for (Stage const& stage : stages) {
        most = std::max(most, stage.beside_bytes);
    }
    return most;
}

Stage end_stage(StepView const& step, std::vector<Stage> const& stages) {
    std::vector<std::int64_t> const bytes = bytes_beside_each(step, stages);
    Stage end;
    end.beside_bytes = bytes.back() - *std::min_element(bytes.begin(), bytes.end());
    std::vector<std::optional<std::size_t>> const owners = stages_of_points(step, stages.size());
    for (std::size_t at = 0; at < owners.size(); ++at) {
        if (owners[at] == stages.size()) {
            TracePoint const& point = step.trace.points[at];
            (point.phase == Phase::forward ? end.forward_ns : end.backward_ns) += point.duration_ns;
        }
    }
    return end;
}

std::int64_t whole_bytes(std::vector<Stage> const& stages) {
    std::int64_t bytes = 0;
    for (Stage const& stage : stages) {
        bytes += whole_bytes(stage);
    }
    return bytes;
}

std::int64_t most_segment_bytes(PlanRequest const& request) {
    std::int64_t const budget = request.budgets.device_bytes;
    return budget == 0 ? std::numeric_limits<std::int64_t>::max() : budget / 2;
}

namespace {

/// Bytes that stages may hold at once under the device budget. Without one as many as there are.
std::int64_t room_for_stages(
    PlanRequest const& request, StepView const& step, std::vector<Stage> const& stages
) {
    if (request.budgets.device_bytes == 0) {
        return std::numeric_limits<std::int64_t>::max() / 4;
    }
    return std::max<std::int64_t>(
        0, request.budgets.device_bytes - bytes_beside_stages(step, stages)
    );
}

}  // namespace

Result<Plan> quickest_plan_that_fits(
    PlanRequest const& request,
    StepView const& step,
    std::vector<Stage> const& stages,
    std::function<std::vector<StageFate>(std::int64_t room_bytes)> const& fates_for
) {
    std::int64_t const room_bytes = room_for_stages(request, step, stages);
    std::vector<StageFate> before;
    Plan plan;
    std::optional<std::int64_t> quickest_ns;
    std::int64_t const compute_ns = compute_ns_of(request.trace);
    int slower = 0;
    std::size_t const stride = std::min(1 + stages.size() / kStagesASkip, kLongestStride);
    for (std::size_t at = 0; at < kRoomPercents.size() && slower < kMostSlower; at += stride) {
        std::int64_t const percent = at + stride < kRoomPercents.size() ? kRoomPercents[at] : 0;
        std::vector<StageFate> fates = fates_for(room_bytes / 100 * percent);
        if (fates == before) {
            continue;
        }
        Plan next = plan_of_stages(request, step, stages, fates);
        before = std::move(fates);
        Result<Forecast> const costs = forecast(request, request.budgets, next);
        if (!costs.ok()) {
            return costs.error();
        }
        bool const is_better = costs->fits && costs->step_ns < quickest_ns.value_or(kForever);
        slower += quickest_ns && !is_better ? 1 : 0;
        if (is_better) {
            quickest_ns = costs->step_ns;
        }
        if (is_better || !quickest_ns) {
            plan = std::move(next);
        }
        if (quickest_ns == compute_ns) {
            break;  // nothing is quicker
        }
    }
    return plan;
}

}  // namespace spillway
