// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/transfers.h"

#include "base/units.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>
#include <vector>

namespace spillway {
namespace {

class TransfersTest : public testing::Test {
  protected:
    Value& add(ValueId id, std::int64_t encoded_bytes = 0) {
        return values_.add(
            id, Value{.size_bytes = 1_MiB, .encoded_bytes = encoded_bytes, .unshared = true}
        );
    }
    /// Its store has started and ended, and its device bytes are gone.
    Value& add_away(ValueId id) {
        Value& value = add(id);
        EXPECT_TRUE(transfers_.start_store(id, false));
        std::vector<Command> const commands = reply_.take();
        transfers_.ended(commands[0].id);
        transfers_.ended(commands[1].id);
        transfers_.drop(id);
        transfers_.ended(reply_.take().back().id);
        return value;
    }
    static void expect_kinds(
        std::vector<Command> const& commands, std::initializer_list<CommandKind> kinds
    ) {
        std::vector<CommandKind> actual;
        for (Command const& command : commands) {
            actual.push_back(command.kind);
        }
        EXPECT_EQ(actual, std::vector<CommandKind>(kinds));
    }

    ValueId const id_{0};
    ValueTable values_;
    Ledger ledger_{
        ExecutorOptions{.device_bytes = 8_MiB, .host_bytes = 2_MiB, .nvme_bytes = 8_MiB}};
    Reply reply_{0};
    Transfers transfers_{values_, ledger_, reply_, 0};
};

TEST_F(TransfersTest, a_value_with_a_code_is_encoded_between_its_room_and_its_store) {
    Value const& value = add(id_, 256_KiB);
    EXPECT_TRUE(transfers_.start_store(id_, false));
    std::vector<Command> const commands = reply_.take();
    expect_kinds(commands, {CommandKind::reserve, CommandKind::run, CommandKind::store});
    EXPECT_EQ(commands[2].after, std::vector{commands[1].id});
    EXPECT_EQ(value.copy->size_bytes, 256_KiB);
    EXPECT_TRUE(value.is_being_stored());
    EXPECT_EQ(values_.droppable().size(), 1u);
}

TEST_F(TransfersTest, a_store_that_finds_no_room_anywhere_is_not_started) {
    values_.add(id_, Value{.size_bytes = 9_MiB, .unshared = true});
    EXPECT_FALSE(transfers_.start_store(id_, true));
    EXPECT_TRUE(reply_.take().empty());
}

TEST_F(TransfersTest, a_return_waits_for_a_store_that_has_not_ended) {
    Value& value = add(id_);
    EXPECT_TRUE(transfers_.start_store(id_, false));
    CommandId const store = reply_.take().back().id;
    values_.alter(id_, value, [](Value& v) { v.on_device = false; });
    transfers_.bring_back(id_, value, true);
    std::vector<Command> const commands = reply_.take();
    expect_kinds(commands, {CommandKind::reserve, CommandKind::load});
    EXPECT_TRUE(commands[0].optional);
    EXPECT_EQ(commands[1].after, (std::vector{commands[0].id, store}));
    EXPECT_TRUE(value.way_back.has_value());
}

TEST_F(TransfersTest, a_return_that_fails_gives_its_room_back_and_keeps_the_copy) {
    Value& value = add_away(id_);
    transfers_.bring_back(id_, value, false);
    transfers_.failed({.command = reply_.take().back().id, .why = "a bad sector"});
    std::vector<Command> const commands = reply_.take();
    expect_kinds(commands, {CommandKind::note, CommandKind::release});
    EXPECT_FALSE(value.takes_device_bytes());
    EXPECT_TRUE(value.copy->is_stored);
}

TEST_F(TransfersTest, a_copy_that_is_left_behind_keeps_its_room_until_its_load_has_ended) {
    Value& value = add_away(id_);
    transfers_.bring_back(id_, value, false);
    CommandId const load = reply_.take().back().id;
    transfers_.bind(id_, value);
    transfers_.leave_copy_behind(id_, value);
    (void)reply_.take();
    EXPECT_FALSE(value.copy.has_value());
    EXPECT_EQ(transfers_.copies_left_behind(), 1);
    transfers_.ended(load);
    expect_kinds(reply_.take(), {CommandKind::release});
    EXPECT_EQ(transfers_.copies_left_behind(), 0);
    EXPECT_TRUE(ledger_.is_empty());
    EXPECT_TRUE(value.on_device);
}

TEST_F(TransfersTest, a_value_that_nothing_refers_to_ends_with_its_store) {
    Value& value = add(id_);
    EXPECT_TRUE(transfers_.start_store(id_, false));
    CommandId const store = reply_.take().back().id;
    transfers_.forget(id_, value);
    EXPECT_EQ(values_.size(), 1);
    transfers_.ended(store);
    expect_kinds(reply_.take(), {CommandKind::release});
    EXPECT_EQ(values_.size(), 0);
    EXPECT_TRUE(transfers_.is_idle());
}

TEST_F(TransfersTest, a_pool_that_refuses_a_store_takes_no_more_and_that_is_said_once) {
    for (std::int64_t i = 0; i < 2; ++i) {
        Value& value = add(ValueId{i});
        ledger_.reopen();
        EXPECT_TRUE(transfers_.start_store(ValueId{i}, false));
        transfers_.failed({.command = reply_.take().back().id, .why = "no space"});
        std::vector<Command> const commands = reply_.take();
        EXPECT_EQ(commands.size(), i == 0 ? 2u : 1u) << "the release, and at first the note";
        EXPECT_FALSE(value.copy.has_value());
    }
    EXPECT_EQ(*ledger_.why_closed(Pool::host), "no space");
    EXPECT_FALSE(ledger_.take(Pool::host, 1));
}

}  // namespace
}  // namespace spillway
