// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The events and commands of the last steps, kept in memory for the file that is written when a
// step fails. `spillway replay` gives the same commands again from it, without torch or a device.
#pragma once

#include "base/result.h"
#include "executor/event_log.h"

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace spillway {

/// Thread  not thread-safe: the loop's mutex guards it
class FlightRecorder {
  public:
    /// Keeps this step, and so many whole ones before it.
    static constexpr std::size_t kStepsBefore = 2;
    /// Events and commands; a recording that grows longer ends there, which is logged.
    static constexpr std::size_t kMostEntries = 500'000;

    explicit FlightRecorder(ExecutorOptions const& options) : options_(options) {
        segments_.emplace_back();
    }

    /// Nothing lives and nothing is in flight: a recording may begin here.
    void may_begin_at(ExecutorState state);
    void add(Event const& event, std::vector<Command> const& reply);

    [[nodiscard]] EventLog log() const;
    /// Writes `log()` to `path`, beside it first and renamed.
    ///
    /// Fails   Errc::io naming the file
    [[nodiscard]] Result<void> write(std::string const& path) const;

  private:
    struct Segment {
        ExecutorState state;
        std::vector<LogEntry> entries;
    };

    ExecutorOptions const options_;
    std::deque<Segment> segments_;  ///< the last one is being recorded
    std::size_t entries_ = 0;
};

}  // namespace spillway
