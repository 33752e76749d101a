// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The commands that answer one event, as they are added.
#pragma once

#include "base/ids.h"
#include "base/refusal.h"
#include "executor/command.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace spillway {

/// Thread  not thread-safe; owned by one executor
class Reply {
  public:
    explicit Reply(std::int64_t next_command) : next_command_(next_command) {}

    /// A command with the next id. The reference holds until another one is added.
    Command& add(CommandKind kind, Lane lane, ValueId value = {}) {
        Command& command = commands_.emplace_back();
        command.id = CommandId{next_command_++};
        command.kind = kind;
        command.lane = lane;
        command.value = value;
        return command;
    }
    /// A run on the side lane for a block of a value, `size_bytes` long; its fence.
    CommandId add_run(
        SideWork work, ValueId value, BlockId block, std::int64_t size_bytes, CommandId after
    ) {
        Command& run = add(CommandKind::run, Lane::side, value);
        run.work = work;
        run.block = block;
        run.size_bytes = size_bytes;
        run.after = {after};
        return run.id;
    }
    void add_wait(CommandId fence) { add(CommandKind::wait, Lane::compute).after = {fence}; }
    void add_note(Notice notice) {
        add(CommandKind::note, Lane::compute).message = std::move(notice);
    }
    /// The device room that was reserved for a value's return goes back.
    void add_device_release(ValueId value, std::int64_t size_bytes) {
        Command& release = add(CommandKind::release, Lane::compute, value);
        release.pool = Pool::device;
        release.size_bytes = size_bytes;
    }

    /// What was added since the last call.
    [[nodiscard]] std::vector<Command> take() { return std::exchange(commands_, {}); }
    [[nodiscard]] std::int64_t next_command() const { return next_command_; }

  private:
    std::vector<Command> commands_;
    std::int64_t next_command_;
};

}  // namespace spillway
