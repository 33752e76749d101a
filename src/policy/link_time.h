// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How long a step waits for its link if bytes may be cut and are released one by one: the closed
// form that optimal offloading bounds steps by, and that STR's program is relaxed to.
#pragma once

#include <vector>

namespace spillway {

/// One point of a step: what could be away by then, and what has to be.
struct LinkDemand {
    double movable_bytes = 0;
    double excess_bytes = 0;
    double duration_ns = 0;
};

/// The time of the points in this order, with their waits: one where less has moved than has to be
/// away; moving goes on while a point computes. For backward, whose loads are the same backwards,
/// the points are given last first. `rate_bytes_per_ns`: above 0.
[[nodiscard]] double time_behind_link(
    std::vector<LinkDemand> const& points, double rate_bytes_per_ns
);

}  // namespace spillway
