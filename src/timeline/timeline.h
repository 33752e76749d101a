// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A timeline: what happened, or would happen, lane by lane, and the bytes in each pool over time.
// Text form: docs/formats/timeline.md.
#pragma once

#include "base/ids.h"
#include "base/place.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

/// One thing that a lane did. Half-open: [start_ns, end_ns).
struct Span {
    Lane lane = Lane::compute;
    std::string what;  ///< "compute", "stall" or a command's kind
    ValueId value;     ///< may be none
    std::int64_t size_bytes = 0;
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;
    /// From its own beginning, where that was before the end of the lane's last; 0: end - start.
    std::int64_t took_ns = 0;
    std::string text = {};  ///< which tensor it is, or what a stall waits for; may be empty

    bool operator==(Span const&) const = default;
};

/// From `at_ns` on the pool holds `used_bytes`.
struct MemoryStep {
    Pool pool = Pool::device;
    std::int64_t at_ns = 0;
    std::int64_t used_bytes = 0;

    bool operator==(MemoryStep const&) const = default;
};

/// From `at_ns` to the next mark the program is at `what`: "step 3, forward".
struct Mark {
    std::int64_t at_ns = 0;
    std::string what;

    bool operator==(Mark const&) const = default;
};

struct Timeline {
    std::string name;
    std::vector<Span> spans;         ///< each lane's in order of start
    std::vector<MemoryStep> memory;  ///< each pool's in order of time
    std::vector<Mark> marks;         ///< in order of time

    bool operator==(Timeline const&) const = default;
};

/// What was measured, in any order, as a timeline: everything in order of time, from 0 on. A lane
/// of a real machine has several moves under way at once: there a span starts where the previous
/// one ended, and `took_ns` is how long it took. Stalls that this shortens to nothing are removed.
[[nodiscard]] Timeline lined_up(Timeline measured);

/// Fails   Errc::bad_argument: a span that ends before it starts or overlaps another of its lane;
///         times that go back; bytes or times below 0
[[nodiscard]] Result<void> validate(Timeline const& timeline);

[[nodiscard]] std::string to_json_text(Timeline const& timeline);
/// Fails   Errc::bad_format naming the field; what `validate` refuses is refused here too
[[nodiscard]] Result<Timeline> parse_timeline(std::string_view text);

}  // namespace spillway
