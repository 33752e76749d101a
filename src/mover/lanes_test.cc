// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/lanes.h"

#include <gtest/gtest.h>

#include <array>

namespace spillway {
namespace {

std::array<std::byte, 1> bytes{};

Move store(std::int64_t fence, Pool pool, std::vector<CommandId> after = {}) {
    return {
        .fence = {fence},
        .pool = pool,
        .way = Direction::store,
        .device = {.bytes = bytes},
        .after = std::move(after)};
}

Move load(std::int64_t fence, Pool pool, std::vector<CommandId> after = {}) {
    return {
        .fence = {fence},
        .pool = pool,
        .way = Direction::load,
        .device = {.bytes = bytes},
        .after = std::move(after)};
}

TEST(LanesTest, each_pool_and_direction_has_a_lane_of_its_own) {
    EXPECT_EQ(Lanes::lane_of(store(1, Pool::host)), 0U);
    EXPECT_EQ(Lanes::lane_of(load(1, Pool::host)), 1U);
    EXPECT_EQ(Lanes::lane_of(store(1, Pool::nvme)), 2U);
    EXPECT_EQ(Lanes::lane_of(load(1, Pool::nvme)), 3U);
}

TEST(LanesTest, a_head_that_waits_holds_those_behind_it) {
    Lanes lanes;
    Move& other = lanes.add(load(1, Pool::nvme));
    lanes.add(store(2, Pool::nvme, {{1}}));
    lanes.add(store(3, Pool::nvme));
    EXPECT_EQ(lanes.ready(2), nullptr);
    lanes.start(other);
    EXPECT_EQ(lanes.ready(2), nullptr);  // started is not ended
    lanes.end({1}, std::nullopt);
    ASSERT_NE(lanes.ready(2), nullptr);
    EXPECT_EQ(lanes.ready(2)->fence, CommandId{2});
    lanes.start(*lanes.ready(2));
    EXPECT_EQ(lanes.ready(2)->fence, CommandId{3});
}

TEST(LanesTest, a_fence_that_nobody_knows_has_ended_well) {
    Lanes lanes;
    Move& move = lanes.add(store(1, Pool::host, {{77}}));
    EXPECT_EQ(lanes.ready(0), &move);
    EXPECT_FALSE(lanes.failure_of(move).has_value());
    EXPECT_TRUE(lanes.ended({77}));
    EXPECT_FALSE(lanes.ended({1}));
}

class Position final : public StreamEvent {};

TEST(LanesTest, a_copy_goes_after_a_copy_that_is_on_its_stream_and_a_tier_does_not) {
    Lanes lanes;
    Move stored = store(1, Pool::host);
    stored.route = Route::copied;
    Move& first = lanes.add(stored);
    lanes.start(first);
    Move copied = load(2, Pool::host, {{1}});
    copied.route = Route::copied;
    Move staged = load(3, Pool::nvme, {{1}});
    staged.route = Route::staged;
    lanes.add(copied);
    lanes.add(staged);
    EXPECT_EQ(lanes.ready(1), nullptr);  // the store's copy is not enqueued
    first.copied = std::make_shared<Position>();
    EXPECT_NE(lanes.ready(1), nullptr);
    EXPECT_EQ(lanes.ready(3), nullptr);
    lanes.end({1}, std::nullopt);
    EXPECT_NE(lanes.ready(3), nullptr);
}

TEST(LanesTest, a_failure_is_remembered_and_names_the_first_of_a_chain) {
    Lanes lanes;
    Failure const failure{{1}, {Errc::io, "the disk is gone", "file, 4096"}};
    lanes.start(lanes.add(store(1, Pool::nvme)));
    lanes.end({1}, failure);
    Move& late = lanes.add(load(2, Pool::nvme, {{1}}));
    EXPECT_EQ(lanes.ready(3), &late);
    std::optional<Failure> const why = lanes.failure_of(late);
    ASSERT_TRUE(why.has_value());
    lanes.start(late);
    lanes.end({2}, why);
    Move& later = lanes.add(store(3, Pool::host, {{2}}));
    EXPECT_EQ(lanes.failure_of(later)->first, CommandId{1});
    EXPECT_EQ(lanes.failure_of(later)->error, failure.error);
    std::array const known{CommandId{1}, CommandId{2}};
    lanes.forget(known);
    EXPECT_FALSE(lanes.failure_of(later).has_value());
}

TEST(LanesTest, what_waits_can_be_dropped_and_what_started_stays) {
    Lanes lanes;
    lanes.start(lanes.add(store(1, Pool::nvme)));
    lanes.add(store(2, Pool::nvme));
    lanes.add(load(3, Pool::nvme, {{2}}));
    EXPECT_EQ(lanes.drop_waiting().size(), 2U);
    EXPECT_EQ(lanes.under_way(), 1);
    EXPECT_FALSE(lanes.ended({1}));
    EXPECT_TRUE(lanes.ended({2}));
}

}  // namespace
}  // namespace spillway
