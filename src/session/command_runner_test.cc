// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/command_runner.h"

#include "session/loop_parts.h"

#include <gtest/gtest.h>

#include <variant>

namespace spillway {
namespace {

/// Commands as the executor writes them, with ids in order.
struct Script {
    CommandId add(
        CommandKind kind, Lane lane, ValueId value, Pool pool, std::vector<CommandId> after = {}
    ) {
        Command& command = commands.emplace_back();
        command.id = CommandId{std::ssize(commands)};
        command.kind = kind;
        command.lane = lane;
        command.value = value;
        command.block = BlockId{1};
        command.pool = pool;
        command.size_bytes = 1_MiB;
        command.after = std::move(after);
        return command.id;
    }
    /// [reserve, store]; the store's fence.
    CommandId store(ValueId value) {
        CommandId const room = add(CommandKind::reserve, Lane::nvme_write, value, Pool::nvme);
        return add(CommandKind::store, Lane::nvme_write, value, Pool::nvme, {room});
    }

    std::vector<Command> commands;
};

TEST(CommandRunner, a_value_leaves_and_comes_back) {
    Parts parts;
    ValueId const value = parts.put(0, 1_MiB);
    Script script;
    CommandId const stored = script.store(value);
    script.add(CommandKind::wait, Lane::compute, {}, Pool::device, {stored});
    script.add(CommandKind::drop, Lane::compute, value, Pool::device, {stored});
    EXPECT_TRUE(parts.runner.run(script.commands).ok());
    EXPECT_FALSE(parts.driver.has(value));
    script.commands.clear();
    CommandId const room = script.add(CommandKind::reserve, Lane::nvme_read, value, Pool::device);
    CommandId const loaded =
        script.add(CommandKind::load, Lane::nvme_read, value, Pool::nvme, {room});
    EXPECT_TRUE(parts.runner.run(script.commands).ok());
    EXPECT_EQ(parts.runner.returning_bytes(), 1_MiB);
    EXPECT_EQ(parts.settled().size(), 3u) << "the store, the drop and the load";
    script.commands.clear();
    script.add(CommandKind::bind, Lane::compute, value, Pool::device, {loaded});
    EXPECT_TRUE(parts.runner.run(script.commands).ok());
    EXPECT_TRUE(parts.driver.has(value));
    EXPECT_EQ(parts.runner.returning_bytes(), 0);
}

TEST(CommandRunner, what_waits_for_a_failure_fails_and_is_not_run) {
    Parts parts;
    ValueId const value{9};  // nothing refers to it
    Script script;
    CommandId const stored = script.store(value);
    CommandId const dropped =
        script.add(CommandKind::drop, Lane::compute, value, Pool::device, {stored});
    EXPECT_TRUE(parts.runner.run(script.commands).ok());
    EXPECT_TRUE(parts.runner.has_failed(stored));
    EXPECT_TRUE(parts.runner.has_failed(dropped));
    std::vector<Event> const events = parts.settled();
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(std::get<Failed>(events[0]).why, "") << "given up, which is no fault";
    parts.runner.begin_step();
    EXPECT_FALSE(parts.runner.has_failed(stored));
}

TEST(CommandRunner, a_return_that_is_given_up_releases_its_room) {
    Parts parts;
    ValueId const value{2};
    std::int64_t const before = parts.device->used_bytes();
    Script script;
    script.add(CommandKind::reserve, Lane::nvme_read, value, Pool::device);
    EXPECT_TRUE(parts.runner.run(script.commands).ok());
    EXPECT_EQ(parts.device->used_bytes(), before + 1_MiB);
    script.commands.clear();
    script.add(CommandKind::release, Lane::compute, value, Pool::device);
    script.add(CommandKind::release, Lane::compute, value, Pool::device);  // as after a failure
    EXPECT_TRUE(parts.runner.run(script.commands).ok());
    EXPECT_EQ(parts.device->used_bytes(), before);
    EXPECT_EQ(parts.runner.returning_bytes(), 0);
}

TEST(CommandRunner, a_raise_is_an_error_with_its_refusal_kept) {
    Parts parts;
    Script script;
    script.add(CommandKind::raise, Lane::compute, {}, Pool::device);
    script.commands[0].message = Refusal{.asked_bytes = 5_MiB, .limit_bytes = 16_MiB};
    Result<void> const outcome = parts.runner.run(script.commands);
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().code, Errc::out_of_memory);
    ASSERT_NE(outcome.error().refusal, nullptr);
    EXPECT_EQ(outcome.error().refusal->asked_bytes, 5_MiB);
}

}  // namespace
}  // namespace spillway
