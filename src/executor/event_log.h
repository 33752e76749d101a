// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The text form of events and commands, and the flight recorder's file: JSON lines, in the order in
// which things happened. Grammar: docs/formats/events.md.
#pragma once

#include "base/result.h"
#include "executor/command.h"
#include "executor/event.h"
#include "executor/executor_options.h"

#include <cstdint>
#include <istream>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace spillway {

/// One line each, without the line's end.
[[nodiscard]] std::string log_header(
    ExecutorOptions const& options, ExecutorState const& state = {}
);
[[nodiscard]] std::string to_text(Event const& event);
[[nodiscard]] std::string to_text(Command const& command);

/// A log's first line.
struct LogHeader {
    ExecutorOptions options;
    ExecutorState state;  ///< where the recording begins
};

/// Fails   Errc::bad_format naming the field
[[nodiscard]] Result<LogHeader> parse_log_header(std::string_view line);
[[nodiscard]] Result<Event> parse_event(std::string_view line);
[[nodiscard]] Result<Command> parse_command(std::string_view line);

/// Is the event one of the program's, which are answered in program order (and not queued)?
[[nodiscard]] bool is_program_event(Event const& event);

using LogEntry = std::variant<Event, Command>;

/// The events that a run reported to its executor, each followed by the commands of its reply.
struct EventLog {
    ExecutorOptions options;
    std::vector<LogEntry> entries;
    ExecutorState state{};  ///< before the first of them

    bool operator==(EventLog const&) const = default;
};

[[nodiscard]] std::string to_text(EventLog const& log);
/// Fails   Errc::bad_format naming the line; Errc::io: the stream cannot be read. A last line
///         without its end is one that a crash cut short: it is left out.
[[nodiscard]] Result<EventLog> read_event_log(std::istream& stream);

/// What a fresh executor made of a log's events.
struct ReplayOutcome {
    bool identical = false;
    std::int64_t events = 0;
    std::int64_t commands = 0;  ///< compared before the first difference
    std::string difference;     ///< the first: its place, what was recorded and what was answered
    std::int64_t steps = 0;
    std::string refusal;  ///< the words of the last `raise`; empty: nothing was refused

    bool operator==(ReplayOutcome const&) const = default;
};

/// Feeds the log's events to a fresh executor and compares its commands with the recorded ones.
/// The commands of the last event may be cut short: a log ends where its process did.
///
/// Fails   as `read_event_log`; Errc::bad_format: events in an order no program makes (a value
///         saved twice or needed after its drop)
[[nodiscard]] ReplayOutcome replay(EventLog const& log);
[[nodiscard]] Result<ReplayOutcome> replay(std::istream& stream);

}  // namespace spillway
