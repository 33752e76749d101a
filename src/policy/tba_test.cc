// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/tba.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway {
namespace {

/// Equal modules of 100 bytes and 10 ns each.
std::vector<TbaModule> modules(std::size_t count) {
    return std::vector<TbaModule>(count, {100, 10});
}

TEST(Tba, the_cut_is_the_first_module_whose_bytes_take_longer_than_the_rest_of_the_step) {
    // Of ten modules F = 100. V_k = 100 k + 200, T_k = 300 - 20 k.
    EXPECT_EQ(tba_cut(modules(10), 1e12), 9U) << "all but the last";
    EXPECT_EQ(tba_cut(modules(10), 0.5e9), 0U) << "V_0 / T_0 = 200 / 300 is more already";
    // V_3 / T_3 = 500 / 240 = 2.08; V_2 / T_2 = 400 / 260 = 1.54.
    EXPECT_EQ(tba_cut(modules(10), 2e9), 3U);
    // V_6 / T_6 = 800 / 180 = 4.4; V_5 / T_5 = 700 / 200 = 3.5.
    EXPECT_EQ(tba_cut(modules(10), 4e9), 6U);
}

TEST(Tba, of_one_module_or_none_nothing_leaves) {
    EXPECT_EQ(tba_cut(modules(1), 1e12), 0U);
    EXPECT_EQ(tba_cut({}, 1e12), 0U);
}

Result<Plan> plan_of(double rate_bytes_per_s, char const* choice = "tba") {
    return make_plan(
        *parse_policy_choice(choice),
        chain(10),
        fast_machine(rate_bytes_per_s),
        {.device_bytes = 0, .host_bytes = 1_GiB}
    );
}

std::int64_t moved(Plan const& plan) {
    std::int64_t count = 0;
    for (auto const& [slot, fate] : plan.fates) {
        count += fate.kind == FateKind::move ? 1 : 0;
    }
    return count;
}

TEST(Tba, what_leaves_hides_and_lowers_the_peak) {
    Result<Plan> const plan = plan_of(2e9);  // a layer's megabyte takes half its forward's time
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(moved(*plan), 9);
    EXPECT_EQ(plan->predicted_step_ns, 10 * (kChainForwardNs + kChainBackwardNs));
    EXPECT_LT(plan->predicted_peak_bytes, kChainFloorBytes + 5 * kChainSetBytes);
}

TEST(Tba, a_slow_link_moves_less_and_still_hides) {
    Result<Plan> const plan = plan_of(0.5e9);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_GT(moved(*plan), 1);
    EXPECT_LT(moved(*plan), 9);
    EXPECT_LE(plan->predicted_step_ns, 103 * (kChainForwardNs + kChainBackwardNs) / 10);
}

TEST(Tba, small_values_stay) {
    Result<Plan> const plan = plan_of(2e9, "tba:least_bytes=1000001");
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(moved(*plan), 0);
}

}  // namespace
}  // namespace spillway
