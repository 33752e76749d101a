// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "simulator/lanes.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway {
namespace {

/// 1000 bytes a microsecond alone, 500 both ways; NVMe shares a slow group with nothing at first.
Machine machine_of(double group_rate) {
    Machine machine;
    machine.tiers = {{"device", Pool::device, 1}, {"host", Pool::host, 1}, {"nvme", Pool::nvme, 1}};
    machine.links = {
        {Pool::device, Pool::host, 1e9, 0.5e9, 0, "bus"},
        {Pool::host, Pool::device, 1e9, 0.5e9, 0, "bus"},
        {Pool::device, Pool::nvme, 1e9, 1e9, 100, "bus"},
        {Pool::nvme, Pool::device, 1e9, 1e9, 100, ""}};
    machine.groups = {{"bus", group_rate}};
    return machine;
}

class Lanes : public testing::Test {
  protected:
    void push(
        std::int64_t id, Lane lane, std::int64_t size_bytes, std::vector<CommandId> after = {}
    ) {
        Command command;
        command.id = CommandId{id};
        command.lane = lane;
        command.size_bytes = size_bytes;
        command.after = std::move(after);
        lanes_.push({command, false});
    }
    /// The next one that ends: (id, time).
    std::pair<std::int64_t, std::int64_t> next() {
        std::optional<TransferEnd> const end = lanes_.advance(VirtualLanes::kForever);
        return end ? std::pair(end->transfer.command.id.number, end->end_ns) : std::pair(-1L, -1L);
    }
    using Pair = std::pair<std::int64_t, std::int64_t>;

    Machine machine_ = machine_of(1e18);
    Fences fences_;
    VirtualLanes lanes_{machine_, fences_, 0, 0};
};

TEST_F(Lanes, one_after_the_other) {
    push(0, Lane::copy_out, 1000);
    push(1, Lane::copy_out, 500);
    EXPECT_EQ(next(), Pair(0, 1000));
    EXPECT_EQ(next(), Pair(1, 1500));
    EXPECT_EQ(next(), Pair(-1, -1));
}

TEST_F(Lanes, both_ways_are_slower) {
    push(0, Lane::copy_out, 1000);
    push(1, Lane::copy_in, 500);
    EXPECT_EQ(next(), Pair(1, 1000));  // half the rate while both run
    EXPECT_EQ(next(), Pair(0, 1500));  // 500 bytes left at the full rate
}

TEST_F(Lanes, latency_comes_before_the_bytes) {
    push(0, Lane::nvme_write, 1000);
    EXPECT_EQ(next(), Pair(0, 1100));
}

TEST_F(Lanes, tell_how_long_bytes_of_the_device_have_moved) {
    push(0, Lane::nvme_write, 1000);  // after a latency of 100
    push(1, Lane::copy_out, 500);
    (void)lanes_.advance(400);
    EXPECT_EQ(lanes_.device_moves_ns(), 400);
    (void)lanes_.advance(VirtualLanes::kForever);
    (void)lanes_.advance(VirtualLanes::kForever);
    EXPECT_EQ(lanes_.now_ns(), 1100);
    EXPECT_EQ(lanes_.device_moves_ns(), 1100);
    (void)lanes_.advance(2000);
    EXPECT_EQ(lanes_.device_moves_ns(), 1100);
}

TEST_F(Lanes, groups_share) {
    machine_ = machine_of(1e9);
    push(0, Lane::copy_out, 1000);
    push(1, Lane::nvme_write, 1000);
    // 100 ns alone, then half each: 900 bytes take 1800 ns; the other has 100 left.
    EXPECT_EQ(next(), Pair(0, 1900));
    EXPECT_EQ(next(), Pair(1, 2000));
}

TEST_F(Lanes, waits_for_fences_of_other_lanes) {
    push(0, Lane::copy_out, 1000);
    push(1, Lane::nvme_read, 0, {CommandId{0}});
    EXPECT_EQ(next(), Pair(0, 1000));
    EXPECT_EQ(next(), Pair(1, 1100));
}

TEST_F(Lanes, does_not_start_after_a_failure) {
    fences_.set(CommandId{7}, FenceState::failed);
    push(8, Lane::copy_out, 1000, {CommandId{7}});
    std::optional<TransferEnd> const end = lanes_.advance(VirtualLanes::kForever);
    ASSERT_TRUE(end.has_value());
    EXPECT_FALSE(end->ok);
    EXPECT_FALSE(end->started);
    EXPECT_EQ(fences_.of(CommandId{8}), FenceState::failed);
    EXPECT_EQ(lanes_.now_ns(), 0);
}

TEST_F(Lanes, time_passes_with_nothing_to_do) {
    EXPECT_FALSE(lanes_.advance(500).has_value());
    EXPECT_EQ(lanes_.now_ns(), 500);
    push(0, Lane::copy_out, 1000);
    EXPECT_FALSE(lanes_.advance(1499).has_value());
    EXPECT_EQ(next(), Pair(0, 1500));
}

class SideLane : public Lanes {
  protected:
    SideLane() { lanes_.set_codec_rates(1e9, 0.5e9); }
    void run(
        std::int64_t id, SideWork work, std::int64_t size_bytes, std::vector<CommandId> after = {}
    ) {
        Command command;
        command.id = CommandId{id};
        command.kind = CommandKind::run;
        command.lane = Lane::side;
        command.work = work;
        command.size_bytes = size_bytes;
        command.after = std::move(after);
        lanes_.push({command, false});
    }
};

TEST_F(SideLane, has_a_rate_for_each_work) {
    run(0, SideWork::encode, 1000);
    EXPECT_EQ(next(), Pair(0, 1000));
    run(1, SideWork::decode, 1000);
    EXPECT_EQ(next(), Pair(1, 3000));
}

TEST_F(SideLane, runs_one_at_a_time_and_decodes_first) {
    run(0, SideWork::encode, 1000);
    run(1, SideWork::encode, 1000);
    EXPECT_EQ(next(), Pair(0, 1000));
    run(2, SideWork::decode, 1000);
    EXPECT_EQ(next(), Pair(2, 3000));
    EXPECT_EQ(next(), Pair(1, 4000));
}

TEST_F(SideLane, a_decode_that_waits_holds_no_encode_up) {
    push(0, Lane::copy_in, 5000);
    run(1, SideWork::decode, 1000, {CommandId{0}});
    run(2, SideWork::encode, 1000);
    EXPECT_EQ(next(), Pair(2, 1000));
    EXPECT_EQ(next(), Pair(0, 5000));
    EXPECT_EQ(next(), Pair(1, 7000));
}

TEST_F(SideLane, goes_on_beside_the_copies) {
    push(0, Lane::copy_out, 1000);
    run(1, SideWork::encode, 1000);
    EXPECT_EQ(next(), Pair(1, 1000));
    EXPECT_EQ(next(), Pair(0, 1000));
}

TEST_F(Lanes, without_a_codec_rate_runs_take_no_time) {
    Command command;
    command.id = CommandId{0};
    command.lane = Lane::side;
    command.work = SideWork::encode;
    command.size_bytes = 1000;
    lanes_.push({command, false});
    EXPECT_EQ(next(), Pair(0, 0));
}

}  // namespace
}  // namespace spillway
