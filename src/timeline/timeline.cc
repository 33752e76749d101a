// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "timeline/timeline.h"

#include <algorithm>
#include <array>
#include <utility>

namespace spillway {

namespace {

Error wrong(std::string what) {
    return {Errc::bad_argument, std::move(what), "timeline"};
}

/// In order of time, and of each other where that is the same.
template <typename Entry>
void put_in_order(std::vector<Entry>& entries) {
    for (Entry& entry : entries) {
        entry.at_ns = std::max<std::int64_t>(entry.at_ns, 0);
    }
    std::stable_sort(entries.begin(), entries.end(), [](Entry const& a, Entry const& b) {
        return a.at_ns < b.at_ns;
    });
}

}  // namespace

Timeline lined_up(Timeline measured) {
    std::vector<Span>& spans = measured.spans;
    std::stable_sort(spans.begin(), spans.end(), [](Span const& a, Span const& b) {
        return std::pair(a.end_ns, a.start_ns) < std::pair(b.end_ns, b.start_ns);
    });
    std::array<std::int64_t, kLanes> lane_ends_ns{};
    for (Span& span : spans) {
        std::int64_t& last_end_ns = lane_ends_ns[static_cast<std::size_t>(span.lane)];
        if (span.start_ns < last_end_ns) {
            span.took_ns = span.end_ns - span.start_ns;
            span.start_ns = last_end_ns;
        }
        span.end_ns = std::max(span.end_ns, span.start_ns);
        last_end_ns = span.end_ns;
    }
    std::erase_if(spans, [](Span const& span) {
        return span.size_bytes == 0 && span.start_ns == span.end_ns;
    });
    put_in_order(measured.memory);
    put_in_order(measured.marks);
    return measured;
}

Result<void> validate(Timeline const& timeline) {
    std::array<std::int64_t, kLanes> lane_ends_ns{};
    for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
        Span const& span = timeline.spans[i];
        std::int64_t& end_ns = lane_ends_ns[static_cast<std::size_t>(span.lane)];
        if (span.start_ns < end_ns || span.end_ns < span.start_ns || span.size_bytes < 0) {
            return wrong("span " + std::to_string(i) + " overlaps its lane's last or is negative");
        }
        if (span.took_ns != 0 && span.took_ns < span.end_ns - span.start_ns) {
            return wrong("span " + std::to_string(i) + " took less than from start to end");
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
    std::int64_t marked_ns = 0;
    for (std::size_t i = 0; i < timeline.marks.size(); ++i) {
        if (timeline.marks[i].at_ns < marked_ns) {
            return wrong("mark " + std::to_string(i) + " goes back in time");
        }
        marked_ns = timeline.marks[i].at_ns;
    }
    return {};
}

}  // namespace spillway
