// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One step at a time, without a thread: what each asks of the mover.
#include "mover/moves.h"

#include "base/units.h"
#include "memory/cpu_device.h"
#include "mover/stepped_device.h"
#include "tier/host_tier.h"
#include "tier/memory_tier.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

namespace spillway {
namespace {

constexpr std::size_t kStores = 2;  ///< the lanes of the NVMe pool
constexpr std::size_t kLoads = 3;

class MovesTest : public testing::Test {
  protected:
    void open(Device& device, MoverOptions options = {}) {
        options_ = std::move(options);
        moves_ = std::make_unique<Moves>(device, options_);
        moves_->add_room({1}, Pool::nvme, tier_, tier_.reserve(8).value());
    }
    std::size_t give(std::int64_t fence, Direction way, std::vector<CommandId> after = {}) {
        return moves_->give(
            {.fence = {fence},
             .block = {1},
             .way = way,
             .device = {bytes_, nullptr, {}},
             .after = std::move(after)}
        );
    }
    /// The call of a tier that the next start on `lane` asks for.
    TierCall start_call(std::size_t lane) { return std::get<TierCall>(*moves_->start_next(lane)); }
    /// Whether that starts something that asks for nothing.
    bool starts_quietly(std::size_t lane) {
        std::optional<Outside> const work = moves_->start_next(lane);
        return work && std::holds_alternative<std::monostate>(*work);
    }
    Errc only_error() {
        std::vector<Moves::Ended> const ended = moves_->take_ended();
        return ended.size() == 1 ? ended[0].completion.outcome.error().code : Errc::unsupported;
    }

    MoverOptions options_;
    std::array<std::byte, 8> bytes_{};
    MemoryTier tier_{1_MiB};
    std::unique_ptr<Moves> moves_;
};

TEST_F(MovesTest, a_tier_is_called_with_the_bytes_themselves_where_it_reaches_them) {
    auto const device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
    open(*device);
    ASSERT_EQ(give(1, Direction::store), kStores);
    EXPECT_TRUE(moves_->has_ready(kStores));
    TierCall const call = start_call(kStores);
    EXPECT_TRUE(call.is_store);
    EXPECT_EQ(call.bytes.data(), bytes_.data());
    EXPECT_FALSE(moves_->has_ended({1}));
    EXPECT_FALSE(moves_->take_news().ended);
    moves_->tier_ended({1}, {});
    EXPECT_TRUE(moves_->take_news().ended);
    EXPECT_TRUE(moves_->has_ended({1}));
    EXPECT_EQ(moves_->ended_count(), 1);
}

TEST_F(MovesTest, what_waits_for_a_failure_ends_without_a_call) {
    auto const device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
    open(*device);
    give(1, Direction::store);
    give(2, Direction::load, {{1}});
    EXPECT_FALSE(moves_->start_next(kLoads).has_value()) << "its store has not ended";
    start_call(kStores);
    moves_->tier_ended({1}, Error{Errc::io, "the disk is gone", "here"});
    EXPECT_EQ(only_error(), Errc::io);
    EXPECT_TRUE(starts_quietly(kLoads));
    EXPECT_EQ(only_error(), Errc::cancelled);
    EXPECT_EQ(moves_->under_way(), 0);
}

TEST_F(MovesTest, without_memory_of_the_tier_a_store_is_a_copy_and_then_a_call) {
    SteppedDevice device;
    open(device, {.staging = map_host_memory(4_KiB).value()});
    give(1, Direction::store);
    EXPECT_TRUE(starts_quietly(kStores));
    EXPECT_TRUE(moves_->take_news().started) << "somebody is to look for its copy";
    EXPECT_FALSE(moves_->advance(0).has_value());
    device.passed_to = 100;
    std::optional<Outside> const work = moves_->advance(0);
    ASSERT_TRUE(work.has_value());
    EXPECT_EQ(std::get<TierCall>(*work).bytes.data(), options_.staging.bytes().data());
    moves_->tier_ended({1}, {});
    EXPECT_TRUE(moves_->has_ended({1}));
}

TEST_F(MovesTest, and_a_load_is_a_call_and_then_a_copy_and_waits_for_staging) {
    SteppedDevice device;
    open(device, {.staging = map_host_memory(4_KiB).value()});
    give(1, Direction::load);
    give(2, Direction::load);
    EXPECT_EQ(start_call(kLoads).bytes.data(), options_.staging.bytes().data());
    EXPECT_TRUE(moves_->has_ready(kLoads));
    EXPECT_FALSE(moves_->start_next(kLoads).has_value()) << "staging is one page";
    moves_->tier_ended({1}, {});
    EXPECT_FALSE(moves_->is_settled({1}));
    moves_->begin_advance();
    EXPECT_TRUE(moves_->is_settled({1})) << "streams can wait for it";
    device.passed_to = 100;
    EXPECT_TRUE(moves_->advance(1).has_value());
    EXPECT_TRUE(moves_->has_ended({1}));
    EXPECT_TRUE(moves_->start_next(kLoads).has_value());
    moves_->tier_ended({2}, Error{Errc::io, "the disk is gone", "here"});
}

TEST_F(MovesTest, an_encode_asks_for_a_job_and_its_store_for_the_coded_bytes) {
    auto const device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
    open(*device, {.coded = map_host_memory(64_KiB).value()});
    Encoding const encoding{parse_codec("identity").value(), Dtype::u8, 8};
    std::int64_t const coded_bytes = encoded_bytes(encoding).value();
    moves_->add_room({2}, Pool::nvme, tier_, tier_.reserve(coded_bytes).value());
    moves_->set_code({2}, {encoding, 1, "test"});
    std::size_t const lane = moves_->give(
        {.fence = {1}, .block = {2}, .work = SideWork::encode, .device = {bytes_, nullptr, {}}}
    );
    CodingJob const job = std::get<CodingJob>(*moves_->start_next(lane));
    moves_->give({.fence = {2}, .block = {2}, .after = {{1}}});
    EXPECT_FALSE(moves_->start_next(kStores).has_value());
    moves_->coded(job, run(job));
    EXPECT_EQ(std::ssize(start_call(kStores).bytes), coded_bytes);
    moves_->tier_ended({2}, {});
    EXPECT_EQ(moves_->coded_blocks().used_bytes(), 0);
}

TEST_F(MovesTest, a_room_goes_when_nothing_is_under_way_to_it) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    auto const device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
    open(*device);
    give(1, Direction::store);
    EXPECT_DEATH(moves_->take_room({1}).reset(), "after its stores and loads");
    EXPECT_EQ(
        moves_->describe_oldest(),
        "memory: a store of 8 B (command 1) has not started; 1 are under way"
    );
    start_call(kStores);
    moves_->tier_ended({1}, {});
    EXPECT_EQ(moves_->take_room({1}).size_bytes(), 8);
    EXPECT_EQ(moves_->describe_oldest(), "");
}

}  // namespace
}  // namespace spillway
