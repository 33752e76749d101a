// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/link_time.h"

#include <algorithm>

namespace spillway {

double time_behind_link(std::vector<LinkDemand> const& points, double rate_bytes_per_ns) {
    double moved_bytes = 0;
    double time_ns = 0;
    for (LinkDemand const& point : points) {
        double const must = std::min(point.excess_bytes, point.movable_bytes);
        if (moved_bytes < must) {
            time_ns += (must - moved_bytes) / rate_bytes_per_ns;
            moved_bytes = must;
        }
        time_ns += point.duration_ns;
        moved_bytes =
            std::min(point.movable_bytes, moved_bytes + rate_bytes_per_ns * point.duration_ns);
    }
    return time_ns;
}

}  // namespace spillway
