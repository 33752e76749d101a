// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/event_log.h"

#include "executor/executor.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace spillway {

namespace {

Error at_line(Error error, std::size_t line) {
    error.where = "event log, line " + std::to_string(line);
    return error;
}

/// Knows which values live, so that an altered log is refused and not asserted on.
class EventCheck {
  public:
    /// Why no program makes this event now; empty: one could.
    [[nodiscard]] std::string refuse(Event const& event) {
        if (auto const* const saved = std::get_if<Saved>(&event)) {
            if (saved->value.number <= last_) {
                return "saves value " + std::to_string(saved->value.number) + " out of order";
            }
            last_ = saved->value.number;
            live_.insert(saved->value);
        } else if (auto const* const need = std::get_if<Need>(&event)) {
            if (!live_.contains(need->value)) {
                return "needs value " + std::to_string(need->value.number) + ", which is not live";
            }
        } else if (auto const* const dropped = std::get_if<Dropped>(&event)) {
            live_.erase(dropped->value);
        }
        return {};
    }

  private:
    std::int64_t last_ = -1;
    std::unordered_set<ValueId> live_;
};

/// The commands recorded after entry `at`, up to the next event.
std::vector<Command> recorded_reply(EventLog const& log, std::size_t at) {
    std::vector<Command> commands;
    for (std::size_t i = at + 1; i < log.entries.size(); ++i) {
        auto const* const command = std::get_if<Command>(&log.entries[i]);
        if (command == nullptr) {
            break;
        }
        commands.push_back(*command);
    }
    return commands;
}

std::string text_or_none(std::vector<Command> const& commands, std::size_t at) {
    return at < commands.size() ? to_text(commands[at]) : "nothing";
}

/// Compares a reply; the first difference goes into `outcome`.
void compare(
    std::vector<Command> const& recorded,
    std::vector<Command> const& answered,
    bool cut_short,
    Event const& event,
    ReplayOutcome& outcome
) {
    std::size_t const count =
        cut_short ? recorded.size() : std::max(recorded.size(), answered.size());
    for (std::size_t i = 0; i < count; ++i) {
        if (i >= recorded.size() || i >= answered.size() || recorded[i] != answered[i]) {
            outcome.identical = false;
            outcome.difference = "event " + std::to_string(outcome.events) + " " + to_text(event) +
                                 ": recorded " + text_or_none(recorded, i) + ", answered " +
                                 text_or_none(answered, i);
            return;
        }
        ++outcome.commands;
    }
}

/// What a reader of the outcome wants to know beside the comparison.
void note(Event const& event, std::vector<Command> const& answered, ReplayOutcome& outcome) {
    outcome.steps += std::holds_alternative<Begin>(event) ? 1 : 0;
    for (Command const& command : answered) {
        if (command.kind == CommandKind::raise) {
            outcome.refusal = words_of(std::get<Refusal>(command.message), Face::program);
        }
    }
}

}  // namespace

bool is_program_event(Event const& event) {
    return !std::holds_alternative<Finished>(event) && !std::holds_alternative<Failed>(event) &&
           !std::holds_alternative<Dropped>(event);
}

std::string to_text(EventLog const& log) {
    std::string text = log_header(log.options, log.state) + "\n";
    for (LogEntry const& entry : log.entries) {
        text += std::visit([](auto const& e) { return to_text(e); }, entry) + "\n";
    }
    return text;
}

Result<EventLog> read_event_log(std::istream& stream) {
    EventLog log;
    EventCheck check;
    std::string line;
    std::size_t number = 0;
    while (std::getline(stream, line) && !stream.eof()) {
        ++number;
        if (number == 1) {
            Result<LogHeader> header = parse_log_header(line);
            if (!header) {
                return at_line(header.error(), number);
            }
            log.options = header->options;
            log.state = std::move(header->state);
        } else if (line.starts_with(R"({"c")")) {
            Result<Command> command = parse_command(line);
            if (!command) {
                return at_line(command.error(), number);
            }
            log.entries.emplace_back(std::move(*command));
        } else {
            Result<Event> event = parse_event(line);
            if (!event) {
                return at_line(event.error(), number);
            }
            if (std::string const why = check.refuse(*event); !why.empty()) {
                return at_line({Errc::bad_format, why, ""}, number);
            }
            log.entries.emplace_back(std::move(*event));
        }
    }
    if (stream.bad()) {
        return Error{Errc::io, "cannot be read", "event log"};
    }
    if (number == 0) {
        return Error{Errc::bad_format, "has no header line", "event log"};
    }
    return log;
}

ReplayOutcome replay(EventLog const& log) {
    Executor executor(log.options, log.state);
    ReplayOutcome outcome;
    outcome.identical = true;
    if (!log.entries.empty() && std::holds_alternative<Command>(log.entries.front())) {
        outcome.identical = false;
        outcome.difference = "the log begins with a command that answers no event";
        return outcome;
    }
    for (std::size_t i = 0; i < log.entries.size() && outcome.identical; ++i) {
        auto const* const event = std::get_if<Event>(&log.entries[i]);
        if (event == nullptr) {
            continue;
        }
        std::vector<Command> const recorded = recorded_reply(log, i);
        bool const is_last = i + 1 + recorded.size() == log.entries.size();
        std::vector<Command> const answered = executor.on(*event);
        compare(recorded, answered, is_last, *event, outcome);
        note(*event, answered, outcome);
        outcome.events += outcome.identical ? 1 : 0;
    }
    return outcome;
}

Result<ReplayOutcome> replay(std::istream& stream) {
    Result<EventLog> const log = read_event_log(stream);
    if (!log) {
        return log.error();
    }
    return replay(*log);
}

}  // namespace spillway
