// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/room.h"

#include "base/units.h"

#include <gtest/gtest.h>

#include <variant>
#include <vector>

namespace spillway {
namespace {

/// Four values of 1 MiB under a limit of 8 MiB; the one with the largest number is needed first.
class RoomTest : public testing::Test {
  protected:
    RoomTest() {
        for (std::int64_t i = 0; i < 4; ++i) {
            values_.add(ValueId{i}, Value{.size_bytes = 1_MiB, .distance = -i, .unshared = i < 3});
        }
    }
    std::vector<ValueId> dropped() {
        std::vector<ValueId> values;
        for (Command const& command : reply_.take()) {
            if (command.kind == CommandKind::drop) {
                values.push_back(command.value);
            }
        }
        return values;
    }
    Refusal refuse(std::int64_t size_bytes) {
        room_.refuse({.size_bytes = size_bytes, .usage = {.used_bytes = 8_MiB}}, 0);
        return std::get<Refusal>(reply_.take().back().message);
    }

    ExecutorOptions options_{.device_bytes = 8_MiB, .host_bytes = 2_MiB};
    ValueTable values_;
    Ledger ledger_{options_};
    Floor floor_{0, 0, 0};
    Reply reply_{0};
    Transfers transfers_{values_, ledger_, reply_, 0};
    LeftBytes left_{0, std::nullopt};
    Recompute recompute_{values_, transfers_, reply_, 0, true};
    Room room_{{options_, values_, ledger_, floor_, left_, transfers_, recompute_, reply_}};
};

TEST_F(RoomTest, what_is_needed_last_goes_first_and_no_more_than_is_asked_for) {
    EXPECT_EQ(room_.make_room(1_MiB + 1), 2_MiB);
    EXPECT_EQ(dropped(), (std::vector{ValueId{0}, ValueId{1}}));
}

TEST_F(RoomTest, it_frees_what_the_pools_can_take) {
    EXPECT_EQ(room_.make_room(4_MiB), 2_MiB) << "the host budget";
    EXPECT_EQ(refuse(4_MiB).why, NoRoom::pools_full);
}

TEST_F(RoomTest, a_pool_with_room_is_not_called_full) {
    EXPECT_EQ(refuse(9_MiB).why, NoRoom::nothing_to_move);
}

TEST_F(RoomTest, stores_start_when_the_headroom_is_gone) {
    floor_.see({.used_bytes = 7_MiB}, values_.held_bytes(), values_.held_bytes());
    room_.store_ahead();
    EXPECT_TRUE(reply_.take().empty()) << "3 MiB and 4 of values are an eighth below the limit";
    floor_.see({.used_bytes = 8_MiB}, values_.held_bytes(), values_.held_bytes());
    room_.store_ahead();
    EXPECT_EQ(reply_.take().size(), 2u) << "reserve and store, of one value";
}

TEST_F(RoomTest, no_more_is_stored_ahead_than_the_steps_before_dropped) {
    floor_.see({.used_bytes = 12_MiB}, values_.held_bytes(), values_.held_bytes());
    left_ = {0, 1_MiB};
    room_.store_ahead();
    EXPECT_EQ(values_.droppable_bytes(), 2_MiB) << "1 MiB, and of the next value a little";
    left_.add(1_MiB + 1);
    (void)reply_.take();
    ledger_.give(Pool::host, 1_MiB);
    room_.store_ahead();
    EXPECT_EQ(values_.droppable_bytes(), 3_MiB) << "this step needs more than those before";
}

TEST_F(RoomTest, what_leaves_again_before_it_was_used_is_counted_once) {
    EXPECT_EQ(room_.make_room(2_MiB), 2_MiB);
    transfers_.see_used(2_MiB);
    room_.read_ahead(false);
    EXPECT_EQ(room_.make_room(2_MiB), 2_MiB);
    EXPECT_EQ(left_.now_bytes(), 2_MiB);
}

TEST(LeftBytesTest, a_step_that_saves_nothing_tells_nothing) {
    LeftBytes left(8_MiB, std::nullopt);
    left.begin_step();
    left.begin_step();
    EXPECT_EQ(left.last_bytes(), 8_MiB) << "as in an evaluation without gradients";
    left.begin();
    left.begin_step();
    EXPECT_EQ(left.last_bytes(), 6_MiB);
    EXPECT_TRUE(left.suffice(6_MiB));
    EXPECT_FALSE(left.suffice(5_MiB));
    EXPECT_FALSE(LeftBytes(0, 0).suffice(1_MiB)) << "nothing had to leave yet";
}

TEST_F(RoomTest, what_comes_back_ahead_leaves_the_reserve_free) {
    EXPECT_EQ(room_.make_room(2_MiB), 2_MiB);
    (void)reply_.take();
    transfers_.see_used(6_MiB);
    room_.read_ahead(false);
    std::vector<Command> const commands = reply_.take();
    ASSERT_EQ(commands.size(), 2u) << "reserve and load: a second one would meet the limit";
    EXPECT_EQ(commands[0].value, ValueId{1}) << "which is needed before 0";
}

TEST_F(RoomTest, a_refusal_names_what_something_else_holds) {
    EXPECT_EQ(room_.make_room(2_MiB), 2_MiB);
    for (std::int64_t i = 2; i < 4; ++i) {
        values_.alter(ValueId{i}, *values_.find(ValueId{i}), [](Value& v) { v.unshared = false; });
    }
    Refusal const refusal = refuse(1_MiB);
    EXPECT_EQ(refusal.why, NoRoom::nothing_to_move);
    EXPECT_EQ(refusal.held_bytes, 2_MiB);
}

}  // namespace
}  // namespace spillway
