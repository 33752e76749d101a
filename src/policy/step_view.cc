// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/step_view.h"

namespace spillway {

StepView::StepView(Trace const& of) : trace(of), units(units_of(of)), values(of.values.size()) {
    first_saved.resize(units.names.size());
    last_saved.resize(units.names.size());
    first_needed.resize(units.names.size());
    begin_ns.push_back(0);
    for (std::size_t at = 0; at < trace.points.size(); ++at) {
        TracePoint const& point = trace.points[at];
        begin_ns.push_back(begin_ns.back() + point.duration_ns);
        for (ValueId const id : point.saved) {
            values[id.index()].saved = at;
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

}  // namespace spillway
