// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Whatever the program, budget, plan, machine and faults: the executor keeps its promises (the
// simulator checks them), its log replays, and completions choose nothing.

#include "executor/event_log.h"
#include "fuzz/fuzz_main.h"
#include "fuzz/random_case.h"
#include "simulator/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <string>
#include <vector>

namespace spillway::fuzz {
namespace {

Result<SimulationResult> simulate_case(Case const& subject) {
    SimulatorOptions how = subject.how;
    if (one_seed()) {
        std::cerr << describe(subject);
        how.log_to = &std::cerr;
    }
    return simulate(
        subject.trace,
        subject.machine,
        subject.options,
        subject.plan ? &*subject.plan : nullptr,
        how
    );
}

/// What a lane is told to do, without ids of commands (they count waits too).
std::string choice_of(Command const& command) {
    Command bare = command;
    bare.id = {};
    bare.after = {};
    return to_text(bare);
}

bool chooses(Command const& command) {
    return command.kind != CommandKind::wait && command.kind != CommandKind::note &&
           command.kind != CommandKind::release;
}

using Lanes = std::array<std::vector<std::string>, kLanes>;

/// The choices of each lane, in order.
Lanes choices_of(EventLog const& log) {
    Lanes lanes;
    for (LogEntry const& entry : log.entries) {
        auto const* const command = std::get_if<Command>(&entry);
        if (command != nullptr && chooses(*command)) {
            lanes[static_cast<std::size_t>(command->lane)].push_back(choice_of(*command));
        }
    }
    return lanes;
}

/// Was a value dropped while a copy of it was under way? Its bytes then come free when the copy
/// ends, which is the one way in which time reaches `Usage`, and by it the executor.
bool drops_in_flight(EventLog const& log) {
    std::map<CommandId, ValueId> copies;
    for (LogEntry const& entry : log.entries) {
        if (auto const* const command = std::get_if<Command>(&entry)) {
            if (command->kind == CommandKind::store || command->kind == CommandKind::load ||
                command->kind == CommandKind::run) {
                copies[command->id] = command->value;
            }
            continue;
        }
        Event const& event = std::get<Event>(entry);
        if (auto const* const finished = std::get_if<Finished>(&event)) {
            copies.erase(finished->command);
        } else if (auto const* const failed = std::get_if<Failed>(&event)) {
            copies.erase(failed->command);
        } else if (auto const* const dropped = std::get_if<Dropped>(&event)) {
            for (auto const& [id, value] : copies) {
                if (value == dropped->value) {
                    return true;
                }
            }
        }
    }
    return false;
}

/// Runs from which shares say something.
constexpr std::int64_t kEnough = 200;

/// What the random cases led to: a generator that drew only easy ones would prove little.
struct Seen {
    std::int64_t runs = 0;
    std::int64_t refused = 0;
    std::int64_t moved = 0;
    std::int64_t returned = 0;
    std::int64_t read_ahead = 0;
    std::int64_t cancelled = 0;
    std::int64_t faults = 0;
    std::int64_t dropped_in_flight = 0;
    std::int64_t encoded = 0;
    std::int64_t decoded = 0;
    std::int64_t not_encodable = 0;
    std::int64_t recomputed = 0;
    std::int64_t in_chains = 0;
    std::int64_t short_in_a_run = 0;
    std::int64_t made_for_a_write = 0;

    void add(SimulationResult const& outcome) {
        ++runs;
        refused += outcome.ok ? 0 : 1;
        moved += outcome.stored_bytes > 0 ? 1 : 0;
        returned += outcome.loaded_bytes > 0 ? 1 : 0;
        encoded += outcome.encodes > 0 ? 1 : 0;
        decoded += outcome.decodes > 0 ? 1 : 0;
        recomputed += outcome.recomputes > 0 ? 1 : 0;
        add_runs(outcome.log);
        dropped_in_flight += drops_in_flight(outcome.log) ? 1 : 0;
        auto const any = [&](auto const& is) {
            return std::any_of(outcome.log.entries.begin(), outcome.log.entries.end(), is) ? 1 : 0;
        };
        read_ahead += any([](LogEntry const& entry) {
            auto const* const command = std::get_if<Command>(&entry);
            return command != nullptr && command->optional;
        });
        cancelled += any([](LogEntry const& entry) {
            auto const* const command = std::get_if<Command>(&entry);
            return command != nullptr && command->kind == CommandKind::release &&
                   command->pool == Pool::device;
        });
        faults += any([](LogEntry const& entry) {
            auto const* const event = std::get_if<Event>(&entry);
            return event != nullptr && std::holds_alternative<Failed>(*event);
        });
        not_encodable += any([](LogEntry const& entry) {
            auto const* const event = std::get_if<Event>(&entry);
            auto const* const failed = event == nullptr ? nullptr : std::get_if<Failed>(event);
            return failed != nullptr && failed->why == "injected: not encodable";
        });
    }

    /// Runs of recipes that followed one another for one need, or a write, and those that had to
    /// ask for room.
    void add_runs(EventLog const& log) {
        std::int64_t under_way = 0;
        bool chains = false;
        bool is_short = false;
        bool is_of_write = false;
        Event const* last = nullptr;
        for (LogEntry const& entry : log.entries) {
            if (auto const* const event = std::get_if<Event>(&entry)) {
                bool const ends = std::holds_alternative<Finished>(*event) ||
                                  std::holds_alternative<Failed>(*event);
                is_short = is_short || (under_way > 0 && std::holds_alternative<Short>(*event));
                under_way = is_program_event(*event) && !std::holds_alternative<Short>(*event)
                                ? 0
                                : under_way;
                last = ends ? last : event;
                continue;
            }
            Command const& command = std::get<Command>(entry);
            if (command.kind == CommandKind::run && command.work == SideWork::recompute) {
                chains = chains || ++under_way > 1;
                is_of_write = is_of_write || std::holds_alternative<AboutToWrite>(*last);
            }
        }
        in_chains += chains ? 1 : 0;
        short_in_a_run += is_short ? 1 : 0;
        made_for_a_write += is_of_write ? 1 : 0;
    }

    void expect_variety() const {
        for (std::int64_t const count :
             {refused,
              runs - refused,
              moved,
              returned,
              read_ahead,
              cancelled,
              faults,
              dropped_in_flight,
              encoded,
              decoded,
              not_encodable,
              recomputed,
              in_chains,
              short_in_a_run,
              made_for_a_write}) {
            EXPECT_GT(count * 200, runs) << "less than one run in two hundred";
        }
        std::cout << runs << " runs: " << refused << " refused, " << moved << " moved, " << returned
                  << " returned, " << read_ahead << " read ahead, " << cancelled << " cancelled, "
                  << faults << " with faults, " << dropped_in_flight << " dropped in flight, "
                  << encoded << " encoded, " << decoded << " decoded, " << not_encodable
                  << " not encodable, " << recomputed << " recomputed, " << in_chains
                  << " in chains, " << short_in_a_run << " short in a run, " << made_for_a_write
                  << " made for a write\n";
    }
};

TEST(ExecutorFuzz, every_promise_is_kept) {
    Seen seen;
    for (std::uint64_t const seed : seeds(4000)) {
        Case const subject = random_case(seed);
        Result<SimulationResult> const outcome = simulate_case(subject);
        ASSERT_TRUE(outcome.ok()) << rerun(seed) << outcome.error().message();
        ASSERT_TRUE(validate(outcome->timeline).ok()) << rerun(seed);
        seen.add(*outcome);
    }
    if (seen.runs >= kEnough) {
        seen.expect_variety();
    }
}

TEST(ExecutorFuzz, a_log_replays_to_the_same_commands) {
    for (std::uint64_t const seed : seeds(1000)) {
        Result<SimulationResult> const outcome = simulate_case(random_case(seed));
        if (!outcome) {
            continue;  // the first test's business
        }
        ReplayOutcome const again = replay(outcome->log);
        ASSERT_TRUE(again.identical) << rerun(seed) << again.difference;
    }
}

std::vector<std::string> program_of(EventLog const& log) {
    std::vector<std::string> events;
    for (LogEntry const& entry : log.entries) {
        auto const* const event = std::get_if<Event>(&entry);
        if (event != nullptr && is_program_event(*event)) {
            events.push_back(to_text(*event));
        }
    }
    return events;
}

TEST(ExecutorFuzz, completions_only_open_gates) {
    std::int64_t compared = 0;
    std::int64_t tried = 0;
    for (std::uint64_t const seed : seeds(2000)) {
        ++tried;
        Case subject = random_case(seed);
        subject.how.fail_store = 0;
        subject.how.fail_load = 0;
        subject.how.fail_decode = 0;
        subject.how.raw_every = 0;
        subject.how.full_at_bytes = {-1, -1, -1};
        Result<SimulationResult> const one = simulate_case(subject);
        Dice dice(seed + 1);
        if (subject.options.eviction == EvictionRule::next_use) {  // DELTA asks for the rates
            subject.machine = random_machine(dice);
        }
        subject.how.jitter = subject.how.jitter > 0 ? 0 : 0.9;
        subject.how.settle_at_waits = !subject.how.settle_at_waits;
        Result<SimulationResult> const other = simulate_case(subject);
        ASSERT_TRUE(one.ok()) << rerun(seed) << one.error().message();
        ASSERT_TRUE(other.ok()) << rerun(seed) << other.error().message();
        bool const timeless = !drops_in_flight(one->log) && !drops_in_flight(other->log);
        if (timeless) {
            ASSERT_EQ(program_of(one->log), program_of(other->log)) << rerun(seed);
        }
        if (timeless || program_of(one->log) == program_of(other->log)) {
            ASSERT_EQ(choices_of(one->log), choices_of(other->log)) << rerun(seed);
            compared += one->loaded_bytes > 0 ? 1 : 0;
        }
    }
    EXPECT_TRUE(one_seed() || compared * slower() > 200)
        << compared << " of the runs loaded something";
}

TEST(ExecutorFuzz, an_ample_budget_moves_nothing) {
    for (std::uint64_t const seed : seeds(300)) {
        Case subject = random_case(seed);
        subject.options.chooser = ChooserKind::online;
        subject.options.device_bytes = 4 * peak_without_moves(subject.trace);
        for (auto& [slot, answer] : subject.how.rule) {
            answer.advice = std::min(answer.advice, Advice::when_asked);
        }
        Result<SimulationResult> const outcome = simulate_case(subject);
        ASSERT_TRUE(outcome.ok()) << rerun(seed) << outcome.error().message();
        EXPECT_TRUE(outcome->ok) << rerun(seed);
        EXPECT_EQ(outcome->stored_bytes, 0) << rerun(seed);
    }
}

}  // namespace
}  // namespace spillway::fuzz
