// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/lower_bound.h"

#include "policy/chain_test.h"
#include "policy/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace spillway {
namespace {

constexpr std::int64_t kFourComputeNs = 4 * (kChainForwardNs + kChainBackwardNs);
constexpr std::int64_t kAllButOneBytes = 3 * kChainSetBytes + kChainFloorBytes;
constexpr double kSlowRate = 1e8;      // ten milliseconds a value
constexpr std::int64_t kHairNs = 100;  // of the bound, for what the simulator rounds
constexpr std::int64_t kMs = 1'000'000;

std::int64_t bound_of(Trace const& trace, Machine const& machine, Budgets const& budgets) {
    return lower_bound_ns({trace, machine, budgets, {}});
}

TEST(LowerBound, is_compute_where_all_fits_or_what_has_to_go_hides) {
    Trace const trace = chain(4);
    EXPECT_EQ(bound_of(trace, fast_machine(), {}), kFourComputeNs);
    EXPECT_EQ(
        bound_of(trace, fast_machine(), {kAllButOneBytes + kChainSetBytes, 1_GiB, 0}),
        kFourComputeNs
    );
    EXPECT_EQ(bound_of(trace, fast_machine(), {kAllButOneBytes, 1_GiB, 0}), kFourComputeNs);
}

TEST(LowerBound, a_slow_link_is_waited_for_out_and_in) {
    // One of four has to be away when the last is saved. The first is saved at 1 ms, its store
    // takes 10, and so does its load, after which the first layer's backward takes 2.
    std::int64_t const bound =
        bound_of(chain(4), fast_machine(kSlowRate), {kAllButOneBytes, 1_GiB, 0});
    EXPECT_LE(bound, 23 * kMs);
    EXPECT_NEAR(static_cast<double>(bound), 23e6, kHairNs);
}

TEST(LowerBound, without_a_pool_the_cheapest_recipe_is_run) {
    Trace const trace = chain_with_recipes(4, kMs / 2);  // the second's can go, the last's is used
    std::int64_t const bound = bound_of(trace, fast_machine(), {kAllButOneBytes, 0, 0});
    EXPECT_NEAR(static_cast<double>(bound), kFourComputeNs + 0.5e6, kHairNs);
}

TEST(LowerBound, moves_and_recipes_share_what_has_to_go) {
    // 0.3 of the value is stored from 1 to 4 ms, while forward computes; 0.7 of it is made again.
    Trace const trace = chain_with_recipes(4, kMs / 2);
    std::int64_t const bound =
        bound_of(trace, fast_machine(kSlowRate), {kAllButOneBytes, 1_GiB, 0});
    EXPECT_NEAR(static_cast<double>(bound), kFourComputeNs + 0.35e6, kHairNs);
}

TEST(LowerBound, more_than_the_pool_holds_is_not_moved) {
    Trace const trace = chain_with_recipes(4, kMs / 2);
    std::int64_t const bound =
        bound_of(trace, fast_machine(1e10), {kAllButOneBytes, kChainSetBytes / 2, 0});
    EXPECT_NEAR(static_cast<double>(bound), kFourComputeNs + 0.25e6, kHairNs);
}

/// The fates of number `code`, a digit a value.
Plan plan_number(Trace const& trace, std::size_t code) {
    Plan plan;
    for (TraceValue const& value : trace.values) {
        std::size_t const digit = code % 4;
        code /= 4;
        FateKind const kind = digit == 1                   ? FateKind::move
                              : digit == 2 && value.recipe ? FateKind::recompute
                                                           : FateKind::keep;
        if (digit < 3) {
            plan.fates[value.slot] = {.kind = kind, .pool = Pool::host};
        }
    }
    return plan;
}

TEST(LowerBound, no_plan_of_a_small_step_is_quicker) {
    std::size_t plans = 0;
    std::int64_t closest_ns = INT64_MAX;
    for (Trace const& trace : {chain(4), chain_with_recipes(4, kMs), blocks(2)}) {
        std::int64_t const peak = peak_without_moves(trace);
        for (double const rate : {1e8, 1e9}) {
            Machine const machine = fast_machine(rate);
            for (std::int64_t const percent : {60, 90}) {
                PlanRequest const request{trace, machine, {peak * percent / 100, 1_GiB, 0}, {}};
                std::int64_t const bound = lower_bound_ns(request);
                for (std::size_t code = 0; code < 256; code += 3) {
                    Plan const plan = plan_number(trace, code);
                    Result<Forecast> const costs = forecast(request, request.budgets, plan);
                    ASSERT_TRUE(costs.ok()) << costs.error().message();
                    if (costs->fits) {
                        ++plans;
                        ASSERT_GE(costs->step_ns, bound) << trace.name << rate << percent << code;
                        closest_ns = std::min(closest_ns, costs->step_ns - bound);
                    }
                }
            }
        }
    }
    EXPECT_GT(plans, 300U);
    EXPECT_LT(closest_ns, kHairNs);
}

}  // namespace
}  // namespace spillway
