// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/tight_point.h"

#include "base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace spillway {

namespace {

constexpr std::size_t kNamedValues = 3;

std::int64_t bytes_of(Trace const& trace, std::set<ValueId> const& values) {
    std::int64_t bytes = 0;
    for (ValueId const id : values) {
        bytes += trace.values[id.index()].size_bytes;
    }
    return bytes;
}

/// The module that saves the first of them whose module is known.
std::string module_of(Trace const& trace, TracePoint const& point) {
    for (auto const* const ids : {&point.needed, &point.saved}) {
        for (ValueId const id : *ids) {
            if (!trace.values[id.index()].module.empty()) {
                return ", " + trace.values[id.index()].module;
            }
        }
    }
    return "";
}

}  // namespace

TightPoint tightest_point(Trace const& trace) {
    TightPoint tightest;
    std::set<ValueId> held;  // by the program, which still uses them
    std::set<ValueId> tightest_values;
    for (std::size_t i = 0; i < trace.points.size(); ++i) {
        TracePoint const& point = trace.points[i];
        held.insert(point.saved.begin(), point.saved.end());
        std::set<ValueId> values = held;
        values.insert(point.needed.begin(), point.needed.end());
        std::int64_t const size_bytes = point.floor_bytes + bytes_of(trace, values);
        if (size_bytes > tightest.size_bytes) {
            tightest = {.point = i, .floor_bytes = point.floor_bytes, .size_bytes = size_bytes};
            tightest_values = std::move(values);
        }
        for (auto const* const over : {&point.unshared, &point.dropped}) {
            for (ValueId const id : *over) {
                held.erase(id);
            }
        }
    }
    tightest.values.assign(tightest_values.begin(), tightest_values.end());
    std::stable_sort(
        tightest.values.begin(),
        tightest.values.end(),
        [&](ValueId one, ValueId other) {
            return trace.values[one.index()].size_bytes > trace.values[other.index()].size_bytes;
        }
    );
    return tightest;
}

std::string to_line(TightPoint const& tightest, Trace const& trace) {
    if (trace.points.empty()) {
        return "";
    }
    TracePoint const& point = trace.points[tightest.point];
    std::string line = fmt::format(
        "at least {} are needed at point {} of {} ({}{}): floor {}",
        format_size(tightest.size_bytes),
        tightest.point,
        trace.points.size(),
        name_of(point.phase),
        module_of(trace, point),
        format_size(tightest.floor_bytes)
    );
    for (std::size_t i = 0; i < std::min(kNamedValues, tightest.values.size()); ++i) {
        TraceValue const& value = trace.values[tightest.values[i].index()];
        line += fmt::format(
            "{} {} {}#{}{}",
            i == 0 ? "; saved tensors" : ",",
            format_size(value.size_bytes),
            value.slot.producer,
            value.slot.occurrence,
            value.module.empty() ? "" : " (" + value.module + ")"
        );
    }
    if (tightest.values.size() > kNamedValues) {
        line += fmt::format(" and {} others", tightest.values.size() - kNamedValues);
    }
    return line;
}

}  // namespace spillway
