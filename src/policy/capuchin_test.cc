// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/capuchin.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace spillway {
namespace {

/// A value is made again in a tenth of its layer's forward.
Trace with_recipes(std::int64_t layers) {
    return chain_with_recipes(layers, kChainForwardNs / 10);
}

Result<Plan> plan_of(Trace const& trace, double rate, std::int64_t device_bytes) {
    return make_plan(
        {"capuchin", {}},
        trace,
        fast_machine(rate),
        {.device_bytes = device_bytes, .host_bytes = 1_GiB}
    );
}

std::int64_t count(Plan const& plan, FateKind kind) {
    return std::count_if(plan.fates.begin(), plan.fates.end(), [&](auto const& each) {
        return each.second.kind == kind;
    });
}

TEST(Capuchin, with_room_for_all_nothing_leaves) {
    Result<Plan> const plan = plan_of(with_recipes(8), 1e10, 20 * kChainSetBytes);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(count(*plan, FateKind::keep), 8);
}

TEST(Capuchin, what_hides_is_swapped_and_no_more_than_is_missing) {
    // 8.5 sets under 6: three have to go; those of the longest free time are the oldest.
    Result<Plan> const plan = plan_of(with_recipes(8), 1e10, 6 * kChainSetBytes);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(count(*plan, FateKind::move), 3);
    EXPECT_EQ(count(*plan, FateKind::recompute), 0);
    EXPECT_EQ(plan->fates.at({"layer", 0, 0}).kind, FateKind::move);
    EXPECT_FALSE(plan->fates.at({"layer", 0, 0}).leaves) << "when an allocation fails";
    EXPECT_EQ(plan->predicted_step_ns, 8 * (kChainForwardNs + kChainBackwardNs));
}

TEST(Capuchin, where_no_swap_hides_the_cheaper_is_made_again) {
    Result<Plan> const plan = plan_of(with_recipes(8), 5e7, 6 * kChainSetBytes);  // 20 ms a set
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(count(*plan, FateKind::move), 0);
    EXPECT_EQ(count(*plan, FateKind::recompute), 3);
}

TEST(Capuchin, without_recipes_it_swaps_what_costs_least) {
    Result<Plan> const plan = plan_of(chain(8), 5e7, 6 * kChainSetBytes);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(count(*plan, FateKind::move), 3);
    EXPECT_EQ(plan->fates.at({"layer", 0, 0}).kind, FateKind::move);
}

}  // namespace
}  // namespace spillway
