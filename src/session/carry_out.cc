// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The loop's other half: one method a command. No lock is held while one runs.

#include "base/assert.h"
#include "base/log.h"
#include "session/loop.h"

#include <algorithm>
#include <string>

namespace spillway {

Result<void> Loop::execute(std::vector<Command> const& commands) {
    Result<void> outcome;
    for (Command const& command : commands) {
        Result<void> one = execute(command);
        if (!one.ok() && outcome.ok()) {
            outcome = std::move(one);
        }
    }
    if (!commands.empty()) {
        std::lock_guard const lock(mutex_);
        (void)usage();  // what the reply freed is not in the peak that the next event tells
    }
    return outcome;
}

/// The error of the first fence that `command` waits for and that failed, or null.
Error const* Loop::failure_of(Command const& command) {
    std::lock_guard const lock(mutex_);
    for (CommandId const fence : command.after) {
        auto const at = failed_.find(fence);
        if (at != failed_.end()) {
            return &at->second;
        }
    }
    return nullptr;
}

/// Remembers that a command failed or could not start, and queues the event.
void Loop::fail(Command const& command, Error const& error) {
    std::lock_guard const lock(mutex_);
    failed_.emplace(command.id, error);
    bool const is_return = command.kind == CommandKind::load || command.work == SideWork::decode;
    bool const is_a_fault = error.code != Errc::cancelled && !is_return;
    queued_.push_back(Failed{
        command.id, error.code == Errc::tier_full, is_a_fault ? error.message() : ""});
}

Result<void> Loop::execute(Command const& command) {
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
            run(command);
            return {};
        case CommandKind::bind:
            return bind(command);
        case CommandKind::drop:
            drop(command);
            return {};
        case CommandKind::raise:
            return refuse(command);
        case CommandKind::note:
            say_once(words_of(std::get<Notice>(command.told)));
            return {};
        case CommandKind::wait:
            break;
    }
    return {};
}

Error Loop::refuse(Command const& command) {
    auto const& refusal = std::get<Refusal>(command.told);
    std::string words = words_of(refusal, options_.face);
    if (command.value.valid()) {
        words += ", the largest is " + driver_.describe(command.value);
    }
    std::lock_guard const lock(mutex_);
    refusal_ = refusal;
    return {Errc::out_of_memory, std::move(words), ""};
}

void Loop::reserve(Command const& command) {
    if (command.pool != Pool::device) {
        Result<void> const room = mover_->reserve(command.pool, command.block, command.size_bytes);
        if (!room.ok()) {
            fail(command, room.error());
        }
        return;
    }
    StreamId const stream = driver_.stream_of(command.value);
    Result<void*> const memory = mover_->reserve_device(command.size_bytes, stream);
    if (!memory.ok()) {
        fail(command, memory.error());
        return;
    }
    std::lock_guard const lock(mutex_);
    returning_[command.value] = {*memory, stream, command.size_bytes};
    returning_bytes_ += command.size_bytes;
}

void Loop::release(Command const& command) {
    if (command.pool != Pool::device) {
        mover_->release(command.block);
        return;
    }
    void* memory = nullptr;
    {
        std::lock_guard const lock(mutex_);
        auto const at = returning_.find(command.value);
        if (at == returning_.end()) {
            return;  // its reserve had failed
        }
        memory = at->second.memory;
        returning_bytes_ -= at->second.size_bytes;
        returning_.erase(at);
    }
    mover_->release_device(memory);
}

/// A coded block's bytes are the mover's.
void Loop::store(Command const& command) {
    bool const is_coded = mover_->is_coded(command.block);
    HeldBytes source = is_coded ? HeldBytes{} : driver_.bytes_of(command.value);
    if (source.bytes.empty() && !is_coded) {
        fail(command, Error{Errc::cancelled, "nothing refers to the value any more", ""});
        return;
    }
    Moving move = moving(command, is_coded ? command.size_bytes : std::ssize(source.bytes));
    {
        std::lock_guard const lock(mutex_);
        in_flight_.emplace(command.id, std::move(move));
        if (options_.keep_trace) {
            histories_.of(command.value).pool = command.pool;
        }
    }
    mover_->store(command.id, command.block, std::move(source), command.after);
}

void Loop::load(Command const& command) {
    Moving move = moving(command, command.size_bytes);
    HeldBytes target = mover_->is_coded(command.block) ? HeldBytes{} : target_of(command);
    {
        std::lock_guard const lock(mutex_);
        in_flight_.emplace(command.id, std::move(move));
    }
    mover_->load(command.id, command.block, std::move(target), command.after);
}

/// The reserved device bytes of a value that returns.
HeldBytes Loop::target_of(Command const& command) const {
    std::lock_guard const lock(mutex_);
    Returning const& returning = returning_.at(command.value);
    HeldBytes target;
    target.bytes = {
        static_cast<std::byte*>(returning.memory), static_cast<std::size_t>(command.size_bytes)};
    target.streams = {returning.stream};
    return target;
}

Result<void> Loop::bind(Command const& command) {
    void* memory = nullptr;
    {
        std::lock_guard const lock(mutex_);
        auto const at = returning_.find(command.value);
        memory = at->second.memory;
        returning_bytes_ -= at->second.size_bytes;
        returning_.erase(at);
        if (options_.keep_trace) {
            ++histories_.of(command.value).returned;
        }
    }
    driver_.bind(command.value, memory);
    return {};
}

void Loop::drop(Command const& command) {
    std::int64_t const before = device_->used_bytes();
    driver_.drop(command.value);
    std::int64_t const freed = before - device_->used_bytes();
    std::lock_guard const lock(mutex_);
    bool const came_free = freed >= command.size_bytes;
    (came_free ? report_.freed_bytes : report_.kept_by_others_bytes) += command.size_bytes;
    queued_.push_back(Finished{command.id});
    if (options_.keep_trace) {
        History& history = histories_.of(command.value);
        history.left = true;
        history.came_free = history.came_free || came_free;
    }
}

void Loop::wait(Command const& command) {
    std::optional<Moving> waited_for;
    {
        std::lock_guard const lock(mutex_);
        for (CommandId const fence : command.after) {
            auto const at = in_flight_.find(fence);
            if (at != in_flight_.end()) {
                waited_for = at->second;
            }
        }
    }
    if (waited_for) {
        count_stall(*waited_for, mover_->wait(command.after));
    }
    settle();
}

}  // namespace spillway
