// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What happened in the last steps, lane by lane, kept in memory for the file that a timeline viewer
// opens.
#pragma once

#include "base/clock.h"
#include "base/place.h"
#include "report/report.h"
#include "timeline/timeline.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <fstream>
#include <memory_resource>
#include <string>
#include <vector>

namespace spillway {

/// Thread  not thread-safe: the loop's mutex guards it
/// Units   times are of the steady clock; the timeline counts from the opening
class TimelineRecorder {
  public:
    /// Spans, memory steps and marks. Beyond this the oldest whole steps are removed, which is
    /// logged once; a single step that is longer is cut off.
    static constexpr std::size_t kMostEntries = 200'000;

    explicit TimelineRecorder(std::size_t most_entries = kMostEntries)
        : opened_ns_(steady_now_ns()), most_entries_(most_entries), steps_(1, &pool_) {}

    /// Opens the file that `write` fills.
    ///
    /// Fails   Errc::io naming the file
    [[nodiscard]] Result<void> open(std::string const& path);

    void begin_step();
    void mark(std::string const& what);
    void moved(Span span, Interval time);
    void stalled(StallCause cause, Interval time);
    void used(Pool pool, std::int64_t used_bytes);

    [[nodiscard]] Timeline timeline() const;
    /// Fails   Errc::io naming the file
    [[nodiscard]] Result<void> write();
    /// The same into a file of that name, while more may come.
    ///
    /// Fails   Errc::io naming the file
    [[nodiscard]] Result<void> write_to(std::string const& path) const;

  private:
    /// As in Timeline; all of it is in the memory that it is made with.
    struct Step {
        using allocator_type = std::pmr::polymorphic_allocator<>;
        explicit Step(allocator_type from)
            : spans(from), texts(from), memory(from), marked_ns(from), marks(from) {}
        [[nodiscard]] std::size_t entries() const {
            return spans.size() + memory.size() + marks.size();
        }

        std::pmr::vector<Span> spans;  ///< without their texts
        std::pmr::vector<std::pmr::string> texts;
        std::pmr::vector<MemoryStep> memory;
        std::pmr::vector<std::int64_t> marked_ns;
        std::pmr::vector<std::pmr::string> marks;
    };

    [[nodiscard]] Result<void> write(std::ofstream& file, std::string const& path) const;
    [[nodiscard]] bool has_room();
    [[nodiscard]] Step& now() { return steps_.back(); }

    std::int64_t const opened_ns_;
    std::size_t const most_entries_;
    /// What is kept for thousands of steps lies apart: small blocks of each step between a
    /// program's large ones would keep malloc from joining and reusing those once they are free.
    std::pmr::unsynchronized_pool_resource pool_;
    std::pmr::deque<Step> steps_;
    std::size_t entries_ = 0;
    std::array<std::int64_t, kPools> last_used_bytes_{-1, -1, -1};
    std::string path_;
    std::ofstream file_;
};

}  // namespace spillway
