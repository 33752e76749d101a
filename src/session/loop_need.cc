// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How a value comes back that somebody needs: loads, and runs of recipes without the loop's turn.

#include "base/clock.h"
#include "base/option.h"
#include "session/loop.h"
#include "session/loop_pause.h"

#include <algorithm>
#include <utility>

namespace spillway {

namespace {

/// Room is made so often for one need: what is made room for may take the place of what was there.
constexpr int kMostRooms = 64;

}  // namespace

Result<Loop::Turn> Loop::need(ValueId value, Use use) {
    bool may_try_again = true;
    int most_rooms = kMostRooms;
    Pause const pause(*this);
    for (;;) {
        Turn turn(turn_);
        std::vector<Command> commands;
        runner_.collect();
        if (std::optional<Error> refusal = refusal_of(value)) {
            write_flight_record();
            return std::move(*refusal);
        }
        Result<void> outcome = answer_need(value, use, commands);
        if (outcome.ok()) {
            Result<bool> const computed = without_turn(turn);
            if (!computed.ok()) {
                write_flight_record();
                return computed.error();
            }
            if (!*computed) {
                return turn;
            }
            continue;
        }
        runner_.cancel_runs();
        settle();
        if (may_need_again(commands) && std::exchange(may_try_again, false)) {
            continue;
        }
        std::int64_t const missed_bytes = found_no_room_bytes(commands);
        if (missed_bytes == 0 || most_rooms-- == 0) {
            write_flight_record();
            return outcome.error();
        }
        // A store failed meanwhile, another thread allocated, or what the program has let go of is
        // not known yet: room is asked for at the top, never in the middle of a reply, and then the
        // value once more.
        Result<void> const room = make_room(missed_bytes);
        if (!room.ok()) {
            Error error = room.error();
            error.what = "cannot bring back " + driver_.describe(value) + ": " + error.what;
            return error;
        }
    }
}

/// What a return, or a group of them, did not find; 0: that is not why they failed.
std::int64_t Loop::found_no_room_bytes(std::vector<Command> const& commands) const {
    for (Command const& command : commands) {
        if (auto const* const refusal = std::get_if<Refusal>(&command.message)) {
            return refusal->asked_bytes;
        }
        if (command.kind == CommandKind::reserve && command.pool == Pool::device &&
            runner_.has_failed(command.id)) {
            return command.size_bytes;
        }
    }
    return 0;
}

/// The answer that was carried out is in `commands`.
Result<void> Loop::answer_need(ValueId value, Use use, std::vector<Command>& commands) {
    {
        MutexLock const lock(mutex_);
        commands = catch_up();
        handle(Need{value, usage()}, commands);
    }
    Result<void> outcome = execute(commands);
    if (!outcome.ok() || use == Use::read || runner_.has_runs()) {
        return outcome;
    }
    std::vector<Command> of_write;
    {
        MutexLock const lock(mutex_);
        handle(AboutToWrite{value}, of_write);
    }
    outcome = execute(of_write);
    commands.insert(commands.end(), of_write.begin(), of_write.end());
    return outcome;
}

/// What is needed, or what that is made of, was read ahead, which has failed: now it is loaded.
bool Loop::may_need_again(std::vector<Command> const& commands) {
    for (Command const& command : commands) {
        if (command.kind != CommandKind::bind || !runner_.has_failed(command.id)) {
            continue;
        }
        bool const was_asked = std::any_of(commands.begin(), commands.end(), [&](Command const& c) {
            return c.kind == CommandKind::reserve && c.value == command.value;
        });
        if (!was_asked) {
            return true;
        }
    }
    return false;
}

/// Carries out what is left to run, or waits for another thread's runs; both without the turn.
/// False: there is nothing of that.
Result<bool> Loop::without_turn(Turn& turn) {
    std::vector<Command> const runs = runner_.take_runs();
    if (!runs.empty()) {
        turn.unlock();
        Result<void> const outcome = recompute(runs);
        return outcome.ok() ? Result<bool>(true) : Result<bool>(outcome.error());
    }
    if (CommandId const run = runner_.take_waited(); run.valid()) {
        turn.unlock();
        runner_.wait_for_run(run);
        return true;
    }
    return false;
}

/// After one has failed, the others end, too: they may need what it would have made.
Result<void> Loop::recompute(std::vector<Command> const& runs) {
    Result<std::int64_t> outcome(0);
    Error const given_up{Errc::cancelled, "an operator before it failed", ""};
    for (Command const& run : runs) {
        if (!outcome.ok()) {
            run_ended(run, given_up, 0);
            continue;
        }
        std::int64_t const begin_ns = steady_now_ns();
        outcome = driver_.recompute(run.value);
        if (!outcome.ok() && outcome.error().code == Errc::broken_promise) {
            Error named = outcome.error();
            named.what = with_option_names(named.what, options_.face);
            outcome = std::move(named);
        }
        run_ended(run, outcome, steady_now_ns() - begin_ns);
    }
    return outcome.ok() ? Result<void>() : Result<void>(outcome.error());
}

void Loop::run_ended(
    Command const& run, Result<std::int64_t> const& outcome, std::int64_t took_ns
) {
    Turn const turn(turn_);
    if (outcome.ok()) {
        accounting_.recomputed(run.value, run.size_bytes, *outcome, took_ns);
        runner_.run_ended(run, {});
    } else {
        runner_.run_ended(run, outcome.error());
    }
    settle();
}

std::optional<Error> Loop::refusal_of(ValueId value) const {
    std::optional<Encodings::Refused> const refused = encodings_.refusal_of(value);
    if (!refused) {
        return std::nullopt;
    }
    SavedAs const& as = refused->as;
    return Error{
        refused->error.code,
        to_text(as.encoding->codec) + " cannot give back " + driver_.describe(value) + " (" +
            std::string(name_of(as.tensor_class)) + "): " + refused->error.message(),
        ""};
}

}  // namespace spillway
