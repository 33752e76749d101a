// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "timeline/timeline.h"

#include <array>

namespace spillway {

namespace {

Error wrong(std::string what) {
    return {Errc::bad_argument, std::move(what), "timeline"};
}

}  // namespace

Result<void> validate(Timeline const& timeline) {
    std::array<std::int64_t, kLanes> lane_ends_ns{};
    for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
        Span const& span = timeline.spans[i];
        std::int64_t& end_ns = lane_ends_ns[static_cast<std::size_t>(span.lane)];
        if (span.start_ns < end_ns || span.end_ns < span.start_ns || span.size_bytes < 0) {
            return wrong("span " + std::to_string(i) + " overlaps its lane's last or is negative");
        }
        end_ns = span.end_ns;
    }
    std::array<std::int64_t, kPools> pool_times_ns{};
    for (std::size_t i = 0; i < timeline.memory.size(); ++i) {
        MemoryStep const& step = timeline.memory[i];
        std::int64_t& at_ns = pool_times_ns[static_cast<std::size_t>(step.pool)];
        if (step.at_ns < at_ns || step.used_bytes < 0) {
            return wrong("memory step " + std::to_string(i) + " goes back in time or below 0");
        }
        at_ns = step.at_ns;
    }
    return {};
}

}  // namespace spillway
