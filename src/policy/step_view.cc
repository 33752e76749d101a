// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/step_view.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace spillway {

StepView::StepView(Trace const& of) : StepView(of, units_of(of)) {}

StepView::StepView(Trace const& of, Units its_units)
    : trace(of), units(std::move(its_units)), values(of.values.size()) {
    first_saved.resize(units.names.size());
    last_saved.resize(units.names.size());
    first_needed.resize(units.names.size());
    begin_ns.push_back(0);
    forward_begin_ns.push_back(0);
    for (std::size_t at = 0; at < trace.points.size(); ++at) {
        TracePoint const& point = trace.points[at];
        bool const is_forward = point.phase == Phase::forward;
        begin_ns.push_back(begin_ns.back() + point.duration_ns);
        forward_begin_ns.push_back(forward_begin_ns.back() + (is_forward ? point.duration_ns : 0));
        for (ValueId const id : point.needed) {
            SlotTimes& times = slots_[slot_of(id)];
            times.needed = times.needed ? times.needed : at;
        }
        for (ValueId const id : point.saved) {
            values[id.index()].saved = at;
            slots_[slot_of(id)] = {at, {}};
            if (auto const unit = units.of_value[id.index()]) {
                first_saved[*unit] = first_saved[*unit] ? first_saved[*unit] : id;
                last_saved[*unit] = id;
            }
        }
        for (ValueId const id : point.unshared) {
            ValueView& view = values[id.index()];
            view.unshared = view.unshared ? view.unshared : at;
        }
        for (ValueId const id : point.needed) {
            ValueView& view = values[id.index()];
            view.needed = view.needed ? view.needed : at;
            if (auto const unit = units.of_value[id.index()]; unit && !first_needed[*unit]) {
                first_needed[*unit] = id;
            }
        }
    }
}

std::int64_t StepView::movable_bytes(std::size_t unit) const {
    std::int64_t bytes = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        bytes += units.of_value[i] == unit && values[i].can_move() ? trace.values[i].size_bytes : 0;
    }
    return bytes;
}

std::int64_t StepView::saved_ns(ValueId id) const {
    return begin_ns[values[id.index()].saved];
}

std::int64_t StepView::free_ns(ValueId id) const {
    return begin_ns[*values[id.index()].unshared + 1];
}

std::optional<ValueId> StepView::save_from(std::int64_t at_ns, ValueId value) const {
    auto const begin = values.begin() + static_cast<std::ptrdiff_t>(value.index());
    auto const found = std::partition_point(begin, values.end(), [&](ValueView const& view) {
        return begin_ns[view.saved] < at_ns;
    });
    return found == values.end() ? std::nullopt
                                 : std::optional(ValueId{std::distance(values.begin(), found)});
}

std::optional<Slot> StepView::leaving_slot(ValueId value, std::optional<ValueId> at) const {
    bool const is_after = at && at->number >= value.number &&
                          slots_.at(slot_of(*at)).saved >= slots_.at(slot_of(value)).saved;
    return is_after ? std::optional(slot_of(*at)) : std::nullopt;
}

std::optional<Slot> StepView::returning_slot(ValueId value, std::optional<ValueId> at) const {
    if (!at) {
        return std::nullopt;
    }
    std::optional<std::size_t> const own = slots_.at(slot_of(value)).needed;
    std::optional<std::size_t> const then = slots_.at(slot_of(*at)).needed;
    return then && (!own || *then <= *own) ? std::optional(slot_of(*at)) : std::nullopt;
}

std::vector<LayerView> layers_of(StepView const& step) {
    std::vector<LayerView> layers;
    for (std::size_t i = 0; i < step.values.size(); ++i) {
        ValueId const id{static_cast<std::int64_t>(i)};
        std::string const& module = step.trace.values[i].module;
        bool const is_same = i > 0 && !module.empty() && module == step.trace.values[i - 1].module;
        if (!is_same) {
            layers.push_back({.values = {}, .begin_ns = step.saved_ns(id)});
        }
        LayerView& layer = layers.back();
        layer.values.push_back(id);
        std::optional<std::size_t> const needed = step.values[i].needed;
        bool const is_first =
            needed &&
            (!layer.first_needed || *needed < *step.values[layer.first_needed->index()].needed);
        layer.first_needed = is_first ? id : layer.first_needed;
    }
    auto const forward_end_ns = [&] {
        std::size_t at = step.values.back().saved;
        while (at < step.trace.points.size() && step.trace.points[at].phase == Phase::forward) {
            ++at;
        }
        return step.begin_ns[at];
    };
    for (std::size_t i = 0; i < layers.size(); ++i) {
        LayerView& layer = layers[i];
        bool const is_last = i + 1 == layers.size();
        std::size_t const begin = step.values[layer.values.front().index()].saved;
        std::size_t const end = is_last ? step.trace.points.size()
                                        : step.values[layers[i + 1].values.front().index()].saved;
        layer.end_ns = is_last ? forward_end_ns() : layers[i + 1].begin_ns;
        layer.forward_ns = step.forward_begin_ns[end] - step.forward_begin_ns[begin];
    }
    return layers;
}

}  // namespace spillway
