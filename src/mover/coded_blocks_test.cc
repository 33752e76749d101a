// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/coded_blocks.h"

#include "base/units.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace spillway {
namespace {

class CodedBlocksTest : public testing::Test {
  protected:
    static constexpr std::int64_t kCount = 1000;

    CodedBlocksTest() {
        Encoding const encoding{parse_codec("affine8").value(), Dtype::f32, kCount};
        blocks_.add({1}, {encoding, 5, "test"}, encoded_bytes(encoding).value());
    }
    /// A move of the block; its bytes are `raw_` where it is an encode or decode.
    Move move(std::int64_t fence, Direction way, SideWork work, std::vector<CommandId> after = {}) {
        Move made{.fence = {fence}, .block = {1}, .way = way, .work = work};
        made.after = std::move(after);
        made.is_coded = true;
        if (work != SideWork::none) {
            made.device.bytes = std::as_writable_bytes(std::span(raw_));
        }
        return made;
    }
    Result<void> run_and_finish(Move const& move) {
        CodingJob const job = blocks_.job_of(move);
        return blocks_.finish(job, move, run(job), 0);
    }

    HostMemory memory_ = map_host_memory(64_KiB).value();
    CodedBlocks blocks_{memory_};
    std::vector<float> raw_ = std::vector<float>(kCount, 2.0F);
};

TEST_F(
    CodedBlocksTest, staging_is_held_from_the_encode_to_the_store_and_from_the_load_to_the_decode
) {
    Move encode = move(1, Direction::store, SideWork::encode);
    ASSERT_TRUE(blocks_.take_staging(encode));
    ASSERT_TRUE(run_and_finish(encode).ok());
    blocks_.give_staging_back(encode, true);
    EXPECT_GT(blocks_.used_bytes(), 0) << "its store is to come";

    Move store = move(2, Direction::store, SideWork::none, {{1}});
    ASSERT_TRUE(blocks_.take_staging(store));
    std::vector<std::byte> place(blocks_.bytes_for_tier(store).size());
    std::ranges::copy(blocks_.bytes_for_tier(store), place.begin());
    blocks_.give_staging_back(store, true);
    EXPECT_EQ(blocks_.used_bytes(), 0);

    Move load = move(3, Direction::load, SideWork::none, {{2}});
    ASSERT_TRUE(blocks_.take_staging(load));
    ASSERT_EQ(blocks_.bytes_for_tier(load).size(), place.size());
    std::ranges::copy(place, blocks_.bytes_for_tier(load).begin());
    blocks_.give_staging_back(load, true);
    EXPECT_GT(blocks_.used_bytes(), 0) << "its decode is to come";

    std::vector<float> const before = std::exchange(raw_, std::vector<float>(kCount, -1.0F));
    Move decode = move(4, Direction::load, SideWork::decode, {{3}});
    ASSERT_TRUE(blocks_.take_staging(decode));
    ASSERT_TRUE(run_and_finish(decode).ok());
    blocks_.give_staging_back(decode, true);
    EXPECT_EQ(blocks_.used_bytes(), 0);
    EXPECT_EQ(raw_, before);
    EXPECT_EQ(blocks_.counters().at(0).values, 1);
    EXPECT_EQ(blocks_.counters().at(0).decoded_bytes, kCount * 4);
}

TEST_F(CodedBlocksTest, a_refused_encode_keeps_no_staging_and_counts_as_raw) {
    raw_[7] = INFINITY;
    Move encode = move(1, Direction::store, SideWork::encode);
    ASSERT_TRUE(blocks_.take_staging(encode));
    EXPECT_EQ(run_and_finish(encode).error().code, Errc::unsupported);
    blocks_.give_staging_back(encode, false);
    EXPECT_EQ(blocks_.used_bytes(), 0);
    EXPECT_EQ(blocks_.counters().at(0).went_raw, 1);
    EXPECT_EQ(blocks_.counters().at(0).values, 0);
}

TEST_F(CodedBlocksTest, what_nobody_came_for_goes_with_the_block) {
    Move encode = move(1, Direction::store, SideWork::encode);
    ASSERT_TRUE(blocks_.take_staging(encode));
    ASSERT_TRUE(run_and_finish(encode).ok());
    blocks_.give_staging_back(encode, true);
    Move load = move(3, Direction::load, SideWork::none);
    ASSERT_TRUE(blocks_.take_staging(load));
    blocks_.give_staging_back(load, true);
    EXPECT_GT(blocks_.used_bytes(), 0);
    blocks_.remove({1});
    EXPECT_EQ(blocks_.used_bytes(), 0);
    EXPECT_FALSE(blocks_.contains({1}));
}

TEST_F(CodedBlocksTest, a_device_seals_and_checks_blocks_with_samples_behind_them) {
    Move encode = move(1, Direction::store, SideWork::encode);
    encode.route = Route::coded;
    ASSERT_TRUE(blocks_.take_staging(encode));
    std::int64_t const size_bytes = encoded_bytes(blocks_.code_of({1}).encoding).value();
    CodingJob const seal = blocks_.job_of(encode);
    EXPECT_EQ(seal.task, CodingTask::seal);
    EXPECT_EQ(std::ssize(seal.to), size_bytes);
    EXPECT_EQ(std::ssize(seal.from), kCount * 4) << "a small tensor is its own sample";
    EXPECT_EQ(seal.from.data(), seal.to.data() + size_bytes);
    ASSERT_TRUE(blocks_.finish(seal, encode, {{}, size_bytes, {1, 2}, {}}, 77).ok());
    EXPECT_EQ(blocks_.counters().at(0).encode_ns, 77) << "the device's time";
    EXPECT_EQ(blocks_.counters().at(0).sums.of_values, 2);
}

TEST_F(CodedBlocksTest, a_block_is_coded_once_and_fits_half_of_the_staging) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(blocks_.add({1}, blocks_.code_of({1}), 100), "encoded once");
    EXPECT_DEATH(blocks_.add({2}, blocks_.code_of({1}), 33_KiB), "half of its staging");
}

}  // namespace
}  // namespace spillway
