// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/tba.h"

#include "policy/chain_test.h"
#include "policy/forecast.h"

#include <gtest/gtest.h>

#include <string>
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

/// A point of the recompute-offload-keep curve, of a chain of sixteen layers on a link that takes
/// four fifths of a layer's backward for one way; a recompute takes a fifth of a forward.
struct CurvePoint {
    std::int64_t peak_bytes = 0;
    std::int64_t step_ns = 0;
};

Trace curve_chain() {
    return chain_with_recipes(16, kChainForwardNs / 5);
}

CurvePoint on_curve(std::string const& policy, std::int64_t device_bytes = 0) {
    Result<Plan> const plan = make_plan(
        *parse_policy_choice(policy),
        curve_chain(),
        fast_machine(0.6e9),
        {.device_bytes = device_bytes, .host_bytes = 1_GiB}
    );
    EXPECT_TRUE(plan.ok()) << plan.error().message();
    return plan.ok() ? CurvePoint{plan->predicted_peak_bytes, plan->predicted_step_ns}
                     : CurvePoint{};
}

/// All that can be made again is, and nothing moves.
CurvePoint recompute_alone() {
    Trace const trace = curve_chain();
    Machine const machine = fast_machine(0.6e9);
    Plan plan;
    for (TraceValue const& value : trace.values) {
        plan.fates[value.slot].kind = value.recipe ? FateKind::recompute : FateKind::keep;
    }
    Budgets const budgets{.host_bytes = 1_GiB};
    Result<Forecast> const costs = forecast({trace, machine, budgets, {}}, budgets, plan);
    EXPECT_TRUE(costs.ok() && costs->fits);
    return {costs->peak_bytes, costs->step_ns};
}

TEST(TbaRecompute, its_point_lies_below_keep_offload_and_recompute) {
    CurvePoint const mixed = on_curve("tba_recompute");
    CurvePoint const offload = on_curve("tba");
    CurvePoint const recompute = recompute_alone();
    std::int64_t const keep_bytes = kChainFloorBytes + 16 * kChainSetBytes;
    EXPECT_LT(mixed.peak_bytes, offload.peak_bytes);
    EXPECT_LT(mixed.peak_bytes, recompute.peak_bytes);
    EXPECT_LT(offload.peak_bytes, keep_bytes);
    EXPECT_LT(recompute.peak_bytes, keep_bytes);
    EXPECT_LT(mixed.step_ns, recompute.step_ns) << "fewer are made again";
    EXPECT_GT(mixed.step_ns, offload.step_ns);
}

TEST(TbaRecompute, under_a_budget_no_more_is_made_again_than_it_takes) {
    CurvePoint const offload = on_curve("tba");
    CurvePoint const ample = on_curve("tba_recompute", offload.peak_bytes + kChainSetBytes);
    EXPECT_EQ(ample.step_ns, offload.step_ns);
}

}  // namespace
}  // namespace spillway
