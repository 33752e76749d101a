// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/command_runner.h"

#include "base/assert.h"
#include "base/log.h"

#include <string>
#include <utility>

namespace spillway {

namespace {

Error gone() {
    return {Errc::cancelled, "nothing refers to the value any more", ""};
}

}  // namespace

CommandRunner::CommandRunner(Face face, RunnerParts const& parts, std::function<void()> settle)
    : face_(face),
      device_(parts.device),
      mover_(parts.mover),
      driver_(parts.driver),
      encodings_(parts.encodings),
      accounting_(parts.accounting),
      events_(parts.events),
      settle_(std::move(settle)) {}

void CommandRunner::close() {
    for (auto const& [value, returning] : returning_) {
        mover_.release_device(returning.memory);
    }
    returning_.clear();
}

Result<void> CommandRunner::run(std::vector<Command> const& commands) {
    Result<void> outcome;
    for (Command const& command : commands) {
        Result<void> one = run(command);
        if (!one.ok() && outcome.ok()) {
            outcome = std::move(one);
        }
    }
    return outcome;
}

Result<void> CommandRunner::run(Command const& command) {
    if (command.kind == CommandKind::wait) {
        wait(command);
        return {};
    }
    if (Error const* const cause = failure_of(command)) {
        Error const error = *cause;
        fail(command, error);
        if (command.kind == CommandKind::bind) {
            return Error{
                error.code,
                "cannot bring back " + driver_.describe(command.value) + ": " + error.message(),
                ""};
        }
        return {};
    }
    switch (command.kind) {
        case CommandKind::reserve:
            reserve(command);
            return {};
        case CommandKind::release:
            release(command);
            return {};
        case CommandKind::store:
            store(command);
            return {};
        case CommandKind::load:
            load(command);
            return {};
        case CommandKind::run:
            side_work(command);
            return {};
        case CommandKind::bind:
            bind(command);
            return {};
        case CommandKind::drop:
            drop(command);
            return {};
        case CommandKind::raise:
            return refuse(command);
        case CommandKind::note:
            log_once(words_of(std::get<Notice>(command.message)));
            return {};
        case CommandKind::wait:
            break;
    }
    return {};
}

/// The error of the first fence that `command` waits for and that failed, or null.
Error const* CommandRunner::failure_of(Command const& command) const {
    for (CommandId const fence : command.after) {
        auto const at = failed_.find(fence);
        if (at != failed_.end()) {
            return &at->second;
        }
    }
    return nullptr;
}

/// Remembers that a command failed or could not start, and queues the event.
void CommandRunner::fail(Command const& command, Error const& error) {
    failed_.emplace(command.id, error);
    bool const is_return = command.kind == CommandKind::load || command.work == SideWork::decode ||
                           command.work == SideWork::recompute;
    bool const is_a_fault = error.code != Errc::cancelled && !is_return;
    events_.push(Failed{
        command.id, error.code == Errc::tier_full, is_a_fault ? error.message() : ""});
}

Error CommandRunner::refuse(Command const& command) {
    auto const& refusal = std::get<Refusal>(command.message);
    std::string words = words_of(refusal, face_);
    if (command.value.valid()) {
        words += ", the largest is " + driver_.describe(command.value);
    }
    return {Errc::out_of_memory, std::move(words), "", std::make_shared<Refusal const>(refusal)};
}

void CommandRunner::reserve(Command const& command) {
    if (command.pool != Pool::device) {
        Result<void> const room = mover_.reserve(command.pool, command.block, command.size_bytes);
        if (!room.ok()) {
            fail(command, room.error());
        }
        return;
    }
    StreamId const stream = driver_.stream_of(command.value);
    Result<void*> const memory = mover_.reserve_device(command.size_bytes, stream);
    if (!memory.ok()) {
        fail(command, memory.error());
        return;
    }
    returning_[command.value] = {*memory, stream, command.size_bytes};
    returning_bytes_ += command.size_bytes;
}

/// Null: its reserve had failed.
void* CommandRunner::take_returning(ValueId value) {
    auto const at = returning_.extract(value);
    if (at.empty()) {
        return nullptr;
    }
    returning_bytes_ -= at.mapped().size_bytes;
    return at.mapped().memory;
}

void CommandRunner::release(Command const& command) {
    if (command.pool != Pool::device) {
        mover_.release(command.block);
        return;
    }
    void* const memory = take_returning(command.value);
    if (memory != nullptr) {
        mover_.release_device(memory);
    }
}

/// The mover is about to have it.
void CommandRunner::begins(Command const& command, std::int64_t size_bytes) {
    std::string text = accounting_.keeps_timeline() ? driver_.describe(command.value) : "";
    // A run names no pool: it is its block's.
    Pool const pool =
        command.kind == CommandKind::run ? mover_.pool_of(command.block) : command.pool;
    if (command.kind == CommandKind::load || command.work == SideWork::decode) {
        accounting_.return_begins(command.id, command.value);
    }
    in_flight_.emplace(
        command.id,
        Moving{command.kind, command.work, pool, command.value, size_bytes, std::move(text)}
    );
}

/// A coded block's bytes are the mover's.
void CommandRunner::store(Command const& command) {
    bool const is_coded = mover_.is_coded(command.block);
    HeldBytes source = is_coded ? HeldBytes{} : driver_.bytes_of(command.value);
    if (source.bytes.empty() && !is_coded) {
        fail(command, gone());
        return;
    }
    begins(command, is_coded ? command.size_bytes : std::ssize(source.bytes));
    accounting_.store_begins(command.value, command.pool);
    mover_.store(command.id, command.block, std::move(source), command.after);
}

void CommandRunner::load(Command const& command) {
    HeldBytes target = mover_.is_coded(command.block) ? HeldBytes{} : target_of(command);
    begins(command, command.size_bytes);
    mover_.load(command.id, command.block, std::move(target), command.after);
}

/// The reserved device bytes of a value that returns.
HeldBytes CommandRunner::target_of(Command const& command) const {
    Returning const& returning = returning_.at(command.value);
    HeldBytes target;
    target.bytes = {
        static_cast<std::byte*>(returning.memory), static_cast<std::size_t>(command.size_bytes)};
    target.streams = {returning.stream};
    return target;
}

void CommandRunner::side_work(Command const& command) {
    switch (command.work) {
        case SideWork::encode:
            encode(command);
            return;
        case SideWork::decode:
            decode(command);
            return;
        case SideWork::recompute:
            recompute(command);
            return;
        case SideWork::none:
            break;
    }
    SPILLWAY_ASSERT(false, "a run has work");
}

void CommandRunner::recompute(Command const& command) {
    runs_.push_back(command);
    MutexLock const lock(under_way_mutex_);
    under_way_.insert(command.id);
}

void CommandRunner::run_ended(Command const& run, Result<void> const& outcome) {
    if (outcome.ok()) {
        events_.push(Finished{run.id});
    } else {
        fail(run, outcome.error());
    }
    MutexLock const lock(under_way_mutex_);
    under_way_.erase(run.id);
    run_ended_.notify_all();
}

void CommandRunner::cancel_runs() {
    waited_ = {};
    for (Command const& run : take_runs()) {
        run_ended(run, Error{Errc::cancelled, "what it needs is not there", ""});
    }
}

void CommandRunner::wait_for_run(CommandId run) {
    MutexLock const lock(under_way_mutex_);
    run_ended_.wait(under_way_mutex_, [&]() SPILLWAY_REQUIRES(under_way_mutex_) {
        return under_way_.count(run) == 0;
    });
}

void CommandRunner::encode(Command const& command) {
    std::optional<SavedAs> const as = encodings_.of(command.value);
    HeldBytes source = driver_.bytes_of(command.value);
    if (!as || source.bytes.empty()) {
        fail(command, gone());
        return;
    }
    begins(command, as->encoding->raw_bytes());
    accounting_.encode_begins(command.value, as->encoding->codec);
    BlockCode const code{
        .encoding = *as->encoding, .seed = as->seed, .label = name_of(as->tensor_class)};
    mover_.encode(command.id, command.block, std::move(source), code, command.after);
}

void CommandRunner::decode(Command const& command) {
    HeldBytes target = target_of(command);
    begins(command, command.size_bytes);
    mover_.decode(command.id, command.block, std::move(target), command.after);
}

void CommandRunner::bind(Command const& command) {
    void* const memory = take_returning(command.value);
    accounting_.returned(command.value);
    driver_.bind(command.value, memory);
}

void CommandRunner::drop(Command const& command) {
    if (command.work == SideWork::recompute && !driver_.keep_recipe(command.value)) {
        fail(command, gone());
        return;
    }
    std::int64_t const before = device_.used_bytes();
    driver_.drop(command.value);
    std::int64_t const freed = before - device_.used_bytes();
    accounting_.left(
        command.value,
        command.size_bytes,
        freed >= command.size_bytes,
        command.work == SideWork::recompute
    );
    events_.push(Finished{command.id});
}

void CommandRunner::wait(Command const& command) {
    std::optional<Moving> waited_for;
    for (CommandId const fence : command.after) {
        MutexLock const lock(under_way_mutex_);
        waited_ = under_way_.count(fence) != 0 ? fence : waited_;
    }
    for (CommandId const fence : command.after) {
        auto const at = in_flight_.find(fence);
        if (at != in_flight_.end()) {
            waited_for = at->second;
        }
    }
    if (waited_for) {
        accounting_.stalled(*waited_for, mover_.wait(command.after));
    }
    settle_();
}

void CommandRunner::collect() {
    if (!mover_.has_completions()) {
        return;
    }
    for (Completion const& ended : mover_.take_completions()) {
        std::optional<Moving> moved;
        if (auto const at = in_flight_.extract(ended.command)) {
            moved = std::move(at.mapped());
            accounting_.ended(ended, *moved);
        }
        if (ended.outcome.ok()) {
            events_.push(Finished{ended.command});
        } else {
            events_.push(failed(ended, moved));
        }
    }
}

/// What of the mover's failed: the event for it. What was given up for another's failure is no
/// fault, nor is a value that its codec cannot hold.
Failed CommandRunner::failed(Completion const& ended, std::optional<Moving> const& moved) {
    Error error = ended.outcome.error();
    if (moved && moved->work == SideWork::encode && error.code == Errc::unsupported) {
        accounting_.encode_refused(moved->value);
        encodings_.refused(moved->value, error);
        error.code = Errc::cancelled;  // for the store that waits for it
    }
    failed_.emplace(ended.command, error);
    bool const is_a_fault = error.code != Errc::cancelled;
    return {
        ended.command, error.code == Errc::tier_full, is_a_fault ? error.message() : std::string()};
}

}  // namespace spillway
