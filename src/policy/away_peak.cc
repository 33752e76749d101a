// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/away_peak.h"

#include <algorithm>
#include <limits>

namespace spillway {

namespace {

/// Of no point: lower than any, and far from overflow.
constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min() / 4;

std::int64_t bytes_of(StepView const& step, std::vector<ValueId> const& values) {
    std::int64_t bytes = 0;
    for (ValueId const id : values) {
        bytes += step.trace.values[id.index()].size_bytes;
    }
    return bytes;
}

}  // namespace

AwayPeak::AwayPeak(StepView const& step) : step_(step) {
    std::vector<TracePoint> const& points = step.trace.points;
    while (leaves_ < points.size()) {
        leaves_ *= 2;
    }
    nodes_.assign(2 * leaves_, Node{0, kLowest});
    std::int64_t dropped_bytes = 0;
    for (std::size_t at = 0; at < points.size(); ++at) {
        std::int64_t const change_bytes = bytes_of(step, points[at].saved) - dropped_bytes;
        nodes_[leaves_ + at] = {change_bytes, change_bytes + points[at].floor_bytes};
        dropped_bytes = bytes_of(step, points[at].dropped);
    }
    for (std::size_t node = leaves_; node-- > 1;) {
        nodes_[node] = joined(node);
    }
}

AwayPeak::Node AwayPeak::joined(std::size_t node) const {
    Node const& first = nodes_[2 * node];
    Node const& second = nodes_[2 * node + 1];
    return {
        first.change_bytes + second.change_bytes,
        std::max(first.most_bytes, first.change_bytes + second.most_bytes)};
}

void AwayPeak::change(std::size_t point, std::int64_t by_bytes) {
    if (point >= step_.trace.points.size()) {
        return;
    }
    nodes_[leaves_ + point].change_bytes += by_bytes;
    nodes_[leaves_ + point].most_bytes += by_bytes;
    for (std::size_t node = (leaves_ + point) / 2; node >= 1; node /= 2) {
        nodes_[node] = joined(node);
    }
}

/// A point may list a value more than once: `peak_without` counts each.
void AwayPeak::add(ValueId id) {
    ValueView const& view = step_.values[id.index()];
    std::int64_t const size_bytes = step_.trace.values[id.index()].size_bytes;
    auto const times = [&](std::vector<ValueId> const& values) {
        return static_cast<std::int64_t>(std::count(values.begin(), values.end(), id));
    };
    if (view.unshared) {  // it was there while that point ran
        change(
            *view.unshared + 1, -size_bytes * times(step_.trace.points[*view.unshared].unshared)
        );
    }
    if (view.needed) {
        change(*view.needed, size_bytes * times(step_.trace.points[*view.needed].needed));
    }
}

std::int64_t AwayPeak::peak_bytes() const {
    return std::max<std::int64_t>(0, nodes_[1].most_bytes);
}

}  // namespace spillway
