// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/str.h"

#include "policy/chain_test.h"
#include "policy/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace spillway {
namespace {

constexpr std::int64_t kLayers = 48;
constexpr std::int64_t kPlainNs = kLayers * (kChainForwardNs + kChainBackwardNs);
/// 48 sets and half a set of floor; 20 sets have to be away.
constexpr std::int64_t kBudget = 28 * kChainSetBytes + kChainFloorBytes;
/// A set takes five layers' forwards, or two and a half backwards.
constexpr double kSlowRate = 2e8;

/// Half of the values can be made again, each in the time of its forward.
Trace str_chain() {
    return chain_with_recipes(kLayers, kChainForwardNs);
}

Result<Plan> str_plan(Trace const& trace, double rate, std::int64_t device_bytes) {
    return make_plan(
        {"str", {}}, trace, fast_machine(rate), {.device_bytes = device_bytes, .host_bytes = 1_GiB}
    );
}

std::int64_t count_of(Plan const& plan, FateKind kind) {
    return std::count_if(plan.fates.begin(), plan.fates.end(), [&](auto const& each) {
        return each.second.kind == kind;
    });
}

/// The step if the first 20 of those that can be made again are, and nothing is meant to move.
std::int64_t time_of_recomputes_alone() {
    Trace const trace = str_chain();
    Machine const machine = fast_machine(kSlowRate);
    Plan plan;
    for (std::int64_t i = 0; i < kLayers; ++i) {
        plan.fates[of_layer(static_cast<std::int32_t>(i))].kind =
            i % 2 == 1 && i < 40 ? FateKind::recompute : FateKind::keep;
    }
    Budgets const budgets{.device_bytes = kBudget, .host_bytes = 1_GiB};
    Result<Forecast> const costs = forecast({trace, machine, budgets, {}}, budgets, plan);
    EXPECT_TRUE(costs.ok() && costs->fits);
    return costs->step_ns;
}

TEST(Str, where_the_link_hides_a_part_it_beats_swaps_alone_and_recomputes_alone) {
    Result<Plan> const plan = str_plan(str_chain(), kSlowRate, kBudget);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    Result<Plan> const swaps = str_plan(chain(kLayers), kSlowRate, kBudget);
    ASSERT_TRUE(swaps.ok()) << swaps.error().message();
    std::int64_t const extra_ns = plan->predicted_step_ns - kPlainNs;
    EXPECT_LT(extra_ns, swaps->predicted_step_ns - kPlainNs);
    EXPECT_LT(extra_ns, time_of_recomputes_alone() - kPlainNs);
    EXPECT_GT(count_of(*plan, FateKind::move), 0);
    EXPECT_GT(count_of(*plan, FateKind::recompute), 0);
    // The link hides ten sets, nine at least; what is left is made again, a millisecond each.
    EXPECT_LT(extra_ns, 15 * kChainForwardNs);
}

TEST(Str, what_hides_is_swapped_alone) {
    Result<Plan> const plan = str_plan(str_chain(), 2e9, kBudget);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(count_of(*plan, FateKind::recompute), 0);
    EXPECT_EQ(plan->predicted_step_ns, kPlainNs);
}

TEST(Str, with_room_for_all_nothing_leaves) {
    for (std::int64_t const device_bytes : {std::int64_t{0}, 60 * kChainSetBytes}) {
        Result<Plan> const plan = str_plan(str_chain(), kSlowRate, device_bytes);
        ASSERT_TRUE(plan.ok()) << plan.error().message();
        EXPECT_EQ(count_of(*plan, FateKind::keep), kLayers);
    }
}

TEST(Str, what_does_not_fit_says_what_it_takes) {
    Result<Plan> const plan = str_plan(str_chain(), kSlowRate, kChainSetBytes / 2);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, Errc::out_of_memory);
}

// What is made again may hang on what is made again: chains have no bound but the room that they
// take.
TEST(Str, recipes_in_a_long_row_fit) {
    Trace trace = chain(kLayers);
    for (std::int64_t i = 1; i < kLayers; ++i) {
        trace.values[static_cast<std::size_t>(i)].recipe =
            RecipeShape{.sources = {ValueId{i - 1}}, .calls = 1, .duration_ns = 1000};
    }
    Result<Plan> const plan = str_plan(trace, 1e7, kBudget);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_LE(plan->predicted_peak_bytes, kBudget);
    std::int64_t in_a_row = 0;
    std::int64_t longest = 0;
    for (auto const& [slot, fate] : plan->fates) {
        in_a_row = fate.kind == FateKind::recompute ? in_a_row + 1 : 0;
        longest = std::max(longest, in_a_row);
    }
    EXPECT_GT(longest, 8);
}

TEST(Str, a_thousand_values_are_planned_for) {
    Result<Plan> const plan =
        str_plan(chain_with_recipes(1000, kChainForwardNs), kSlowRate, 600 * kChainSetBytes);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_GT(count_of(*plan, FateKind::recompute), 0);
}

}  // namespace
}  // namespace spillway
