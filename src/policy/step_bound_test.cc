// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/step_bound.h"

#include "policy/catalog.h"
#include "policy/chain_test.h"
#include "policy/optimal_offload.h"
#include "policy/solver.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr std::int64_t kComputeNs = 8 * (kChainForwardNs + kChainBackwardNs);
constexpr Budgets kHalf{.device_bytes = 4 * kChainSetBytes + kChainFloorBytes, .host_bytes = 1_GiB};

std::int64_t bound_of(Trace const& trace, Machine const& machine, Budgets const& budgets) {
    return step_bound_ns({trace, machine, budgets, {}});
}

TEST(StepBound, where_all_can_stay_it_is_the_compute) {
    EXPECT_EQ(bound_of(chain(8), fast_machine(1e8), {.host_bytes = 1_GiB}), kComputeNs);
    EXPECT_EQ(
        bound_of(
            chain(8), fast_machine(1e8), {.device_bytes = 20 * kChainSetBytes, .host_bytes = 1_GiB}
        ),
        kComputeNs
    );
    EXPECT_EQ(bound_of(Trace{}, fast_machine(), kHalf), 0);
}

TEST(StepBound, of_a_chain_that_only_moves_it_is_the_closed_form) {
    for (double const rate : {1e8, 3e8, 1e9, 1e10}) {
        std::int64_t const closed =
            *optimal_offload_bound(chain(8), kHalf.device_bytes, rate, rate);
        std::int64_t const bound = bound_of(chain(8), fast_machine(rate), kHalf);
        EXPECT_NEAR(
            static_cast<double>(bound),
            static_cast<double>(has_solver() ? closed : kComputeNs),
            1e-3 * static_cast<double>(closed)
        ) << rate;
    }
}

TEST(StepBound, what_can_only_be_made_again_costs_its_recipe) {
    if (!has_solver()) {
        return;
    }
    // Every second one has a recipe; three sets have to be away when the last one is saved.
    Trace const trace = chain_with_recipes(8, 300'000);
    Budgets const no_pool{.device_bytes = 5 * kChainSetBytes + kChainFloorBytes};
    double const bound = static_cast<double>(bound_of(trace, fast_machine(), no_pool));
    EXPECT_NEAR(bound, kComputeNs + 3 * 300e3, 1e3);
}

TEST(StepBound, it_falls_with_the_budget_and_with_the_rate) {
    Trace const trace = chain_with_recipes(16, kChainForwardNs);
    std::int64_t last = INT64_MAX;
    for (std::int64_t const sets : {3, 6, 9, 12, 16}) {
        std::int64_t const bound = bound_of(
            trace,
            fast_machine(1e8),
            {.device_bytes = sets * kChainSetBytes + kChainFloorBytes, .host_bytes = 1_GiB}
        );
        EXPECT_LE(bound, last) << sets;
        last = bound;
    }
    EXPECT_LE(bound_of(trace, fast_machine(2e8), kHalf), bound_of(trace, fast_machine(1e8), kHalf));
}

TEST(StepBound, a_second_pool_counts_as_a_second_link) {
    Machine machine = fast_machine(1e8);
    machine.tiers.push_back({"nvme", Pool::nvme, 1_GiB});
    machine.links.push_back({Pool::device, Pool::nvme, 1e8, 1e8, 0, ""});
    machine.links.push_back({Pool::nvme, Pool::device, 1e8, 1e8, 0, ""});
    Budgets both = kHalf;
    both.nvme_bytes = 1_GiB;
    EXPECT_NEAR(
        static_cast<double>(bound_of(chain(8), machine, both)),
        static_cast<double>(bound_of(chain(8), fast_machine(2e8), kHalf)),
        100
    );
}

/// More values than nodes: neighbours are merged, which may only lower the bound.
TEST(StepBound, of_a_long_step_it_is_still_near) {
    Trace const trace = chain_with_recipes(500, kChainForwardNs);
    Budgets const budgets{
        .device_bytes = 300 * kChainSetBytes + kChainFloorBytes, .host_bytes = 1_GiB};
    std::int64_t const compute = 500 * (kChainForwardNs + kChainBackwardNs);
    auto const extra = static_cast<double>(bound_of(trace, fast_machine(2e8), budgets) - compute);
    // As of 48 layers, whose nodes are not merged: of 20 sets, ten do not hide behind the compute,
    // and cost two thirds of a recipe and of a wait each.
    EXPECT_GE(extra, has_solver() ? 0.06 * static_cast<double>(compute) * 0.9 : 0);
    EXPECT_LE(extra, 0.06 * static_cast<double>(compute) * 1.1);
}

TEST(StepBound, no_policy_is_foretold_below_it) {
    for (Trace const& trace : {chain_with_recipes(12, 400'000), blocks(6), chain(12)}) {
        for (double const rate : {2e8}) {
            Machine const machine = fast_machine(rate);
            Budgets const budgets{
                .device_bytes = 2 * peak_without_moves(trace) / 3, .host_bytes = 1_GiB};
            std::int64_t const bound = bound_of(trace, machine, budgets);
            for (Policy const& policy : policies()) {
                if (policy.make_plan == nullptr) {
                    continue;
                }
                Result<Plan> const plan =
                    make_plan({std::string(policy.name), {}}, trace, machine, budgets);
                EXPECT_TRUE(!plan.ok() || bound <= plan->predicted_step_ns) << policy.name;
            }
        }
    }
}

}  // namespace
}  // namespace spillway
