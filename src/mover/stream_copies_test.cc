// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What is enqueued, and what waits for what there. That the bytes are right under every legal order
// of the streams is for tests/late to show.
#include "mover/stream_copies.h"

#include "base/units.h"
#include "mover/stepped_device.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>
#include <vector>

namespace spillway {
namespace {

class StreamCopiesTest : public testing::Test {
  protected:
    /// A move that is under way, between `bytes_` and `place_`.
    Move& move(std::int64_t fence, Direction way, Route route, std::vector<CommandId> after = {}) {
        Move& added = lanes_.add(
            {.fence = {fence},
             .way = way,
             .route = route,
             .device = {bytes_, std::make_shared<int>(1), {}},
             .after = std::move(after)}
        );
        lanes_.start(added);
        if (route == Route::copied) {
            added.beside = place_;
        }
        return added;
    }

    SteppedDevice device_;
    Lanes lanes_;
    std::vector<std::byte> staging_ = std::vector<std::byte>(8_KiB);
    std::array<std::byte, 8> bytes_{};
    std::array<std::byte, 8> place_{};
    StreamCopies copies_{device_, lanes_, staging_, false};
};

TEST_F(StreamCopiesTest, a_copy_waits_for_the_streams_that_had_its_bytes) {
    Move& store = move(1, Direction::store, Route::copied);
    store.device.streams = {{0}, {7}};
    copies_.note_positions(store);
    ASSERT_TRUE(copies_.enqueue(store).ok());
    EXPECT_EQ(
        device_.take_done(),
        "record 1 on 0; record 2 on 7; wait 1 on 1; wait 2 on 1; record 3 on 1; copy 8 on 1; "
        "record 4 on 1"
    );
}

TEST_F(StreamCopiesTest, a_load_waits_on_its_stream_for_the_copy_of_its_store) {
    Move& store = move(1, Direction::store, Route::copied);
    ASSERT_TRUE(copies_.enqueue(store).ok());
    Move& load = move(2, Direction::load, Route::copied, {{1}});
    device_.take_done();
    ASSERT_TRUE(copies_.enqueue(load).ok());
    EXPECT_EQ(device_.take_done(), "wait 2 on 2; record 3 on 2; copy 8 on 2; record 4 on 2");
}

TEST_F(StreamCopiesTest, moves_pass_in_order_when_their_stream_has_come_so_far) {
    Move& first = move(1, Direction::store, Route::copied);
    Move& second = move(2, Direction::store, Route::copied);
    ASSERT_TRUE(copies_.enqueue(first).ok());
    ASSERT_TRUE(copies_.enqueue(second).ok());
    EXPECT_EQ(copies_.on_streams(), 2);
    EXPECT_EQ(copies_.take_passed(0), nullptr);
    device_.passed_to = 2;
    EXPECT_EQ(copies_.take_passed(0), &first);
    EXPECT_EQ(copies_.take_passed(0), nullptr);
    EXPECT_EQ(copies_.on_streams(), 1);
    copies_.count(first);
    EXPECT_EQ(copies_.counters().out_bytes, 8);
    EXPECT_EQ(copies_.counters().out_ns, 1000);
    EXPECT_EQ(copies_.copied(Pool::host).stored_bytes, 8);
}

TEST_F(StreamCopiesTest, a_refused_copy_is_on_no_stream) {
    device_.refuses_copies = true;
    Move& store = move(1, Direction::store, Route::copied);
    EXPECT_EQ(copies_.enqueue(store).error().what, "no copy today");
    EXPECT_EQ(copies_.on_streams(), 0);
    EXPECT_FALSE(StreamCopies::streams_can_wait_for(store));
}

TEST_F(StreamCopiesTest, staging_is_taken_in_pages_and_given_back_once) {
    Move& one = move(1, Direction::store, Route::staged);
    Move& other = move(2, Direction::store, Route::staged);
    Move& third = move(3, Direction::store, Route::staged);
    ASSERT_TRUE(copies_.take_staging(one, 8));
    ASSERT_TRUE(copies_.take_staging(other, 8));
    EXPECT_FALSE(copies_.take_staging(third, 8));
    EXPECT_EQ(other.beside.data() - one.beside.data(), 4_KiB);
    copies_.give_staging_back(one);
    copies_.give_staging_back(one);
    EXPECT_TRUE(copies_.take_staging(third, 8));
}

TEST_F(StreamCopiesTest, streams_wait_for_a_copy_and_the_stall_is_booked_when_it_ended) {
    Move& store = move(1, Direction::store, Route::copied);
    copies_.note_positions(store);
    ASSERT_TRUE(copies_.enqueue(store).ok());
    ASSERT_TRUE(StreamCopies::streams_can_wait_for(store));
    device_.take_done();
    std::vector<std::shared_ptr<void const>> released;
    copies_.order_streams_after(store, released);
    EXPECT_EQ(released.size(), 1U);
    EXPECT_EQ(device_.take_done(), "record 4 on 0; wait 3 on 0; record 5 on 0");
    copies_.pass_stalls();
    EXPECT_EQ(copies_.counters().stall_store_ns, 0);
    device_.passed_to = 5;
    copies_.pass_stalls();
    EXPECT_EQ(copies_.counters().stall_store_ns, 1000);
}

TEST_F(StreamCopiesTest, a_stall_is_kept_with_its_command_where_that_is_asked_for) {
    for (bool const keeps : {false, true}) {
        copies_.keep_stalls(keeps);
        Move& load = move(keeps ? 2 : 1, Direction::load, Route::copied);
        copies_.note_positions(load);
        ASSERT_TRUE(copies_.enqueue(load).ok());
        std::vector<std::shared_ptr<void const>> released;
        copies_.order_streams_after(load, released);
        device_.passed_to = 100;
        copies_.pass_stalls();
        std::vector<StreamStall> const stalls = copies_.take_stalls();
        ASSERT_EQ(stalls.size(), keeps ? 1U : 0U);
        if (keeps) {
            EXPECT_EQ(stalls[0].command, load.fence);
            EXPECT_FALSE(stalls[0].for_store);
            EXPECT_EQ(stalls[0].waited_ns, 1000);
        }
        device_.passed_to = 0;
    }
}

TEST_F(StreamCopiesTest, what_another_stream_asks_for_is_waited_for_on_both) {
    Move& load = move(1, Direction::load, Route::copied);
    copies_.note_positions(load);
    ASSERT_TRUE(copies_.enqueue(load).ok());
    device_.take_done();
    device_.current = {9};
    std::vector<std::shared_ptr<void const>> released;
    copies_.order_streams_after(load, released);
    EXPECT_TRUE(released.empty()) << "its bytes are still to come";
    EXPECT_EQ(
        device_.take_done(),
        "record 4 on 0; wait 3 on 0; record 5 on 0; record 6 on 9; wait 3 on 9; record 7 on 9"
    );
}

}  // namespace
}  // namespace spillway
