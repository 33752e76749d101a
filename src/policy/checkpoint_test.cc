// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/checkpoint.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace spillway {
namespace {

/// A machine without a pool: nothing moves.
Machine alone() {
    return {.name = "alone", .tiers = {{"device", Pool::device, 1_GiB}}, .links = {}, .groups = {}};
}

Result<Plan> checkpointed(std::string_view name, std::int32_t count, double every = 0) {
    PolicyChoice choice{std::string(name), {}};
    if (every > 0) {
        choice.parameters.emplace("every", every);
    }
    return make_plan(choice, blocks(count), alone(), {});
}

std::int64_t kept_inputs(Plan const& plan, std::int32_t count) {
    std::int64_t kept = 0;
    for (std::int32_t i = 0; i < count; ++i) {
        kept += plan.fates.at(input_of_block(i)).kind == FateKind::keep ? 1 : 0;
    }
    return kept;
}

TEST(Checkpoint, each_block_is_made_again_from_its_input_once) {
    Result<Plan> const plan = checkpointed("recompute_all", 9);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(kept_inputs(*plan, 9), 9);
    EXPECT_EQ(plan->predicted_step_ns, 9 * (kChainForwardNs + kChainBackwardNs + kBlockTapeNs));
    EXPECT_EQ(
        plan->predicted_peak_bytes, kChainFloorBytes + 9 * kBlockInputBytes + kBlockTapeBytes
    );
}

TEST(Checkpoint, of_nine_blocks_the_inputs_of_three_stay_and_three_are_made_again_at_once) {
    Result<Plan> const plan = checkpointed("sqrt_checkpoint", 9);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(kept_inputs(*plan, 9), 3);
    EXPECT_EQ(
        plan->predicted_step_ns,
        9 * (kChainForwardNs + kChainBackwardNs + kBlockTapeNs) + 6 * kBlockInputNs
    );
    EXPECT_EQ(
        plan->predicted_peak_bytes,
        kChainFloorBytes + 3 * kBlockInputBytes + 2 * kBlockInputBytes + 3 * kBlockTapeBytes
    ) << "three checkpoints, and one segment whole";
}

TEST(Checkpoint, the_parameter_says_how_long_a_segment_is) {
    Result<Plan> const plan = checkpointed("sqrt_checkpoint", 9, 5);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(kept_inputs(*plan, 9), 2);
    EXPECT_EQ(plan->fates.at(input_of_block(5)).kind, FateKind::keep);
}

TEST(Checkpoint, of_the_lengths_of_a_segment_the_square_root_has_the_lowest_peak) {
    std::int64_t const at_root = checkpointed("sqrt_checkpoint", 16)->predicted_peak_bytes;
    EXPECT_LT(at_root, peak_without_moves(blocks(16)) / 2);
    EXPECT_LT(at_root, checkpointed("sqrt_checkpoint", 16, 8)->predicted_peak_bytes);
    EXPECT_LT(at_root, checkpointed("sqrt_checkpoint", 16, 16)->predicted_peak_bytes);
}

}  // namespace
}  // namespace spillway
