// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/observed_plan.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(ObservedPlan, what_was_loaded_moves_and_the_rest_stays) {
    Trace const trace = chain(8);
    Machine const machine = fast_machine();
    PlanRequest const request{trace, machine, {peak_without_moves(trace) / 2, 1_GiB, 0}, {}};
    Result<Plan> const plan = observed_plan(request, EvictionRule::next_use);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_GE(count_of(*plan, FateKind::move), 4);
    EXPECT_EQ(count_of(*plan, FateKind::recompute), 0);
    EXPECT_EQ(plan->fates.size(), 8U);
    EXPECT_EQ(plan->fates.at(of_layer(0)).pool, Pool::host);
    EXPECT_TRUE(validate(*plan, trace, machine).ok());
}

TEST(ObservedPlan, what_the_rule_made_again_is_to_be_made_again) {
    Trace const trace = chain_with_recipes(48, kChainForwardNs);
    Machine const slow = fast_machine(1e8);  // a move takes 20 ms, a recipe 1
    PlanRequest const request{trace, slow, {peak_without_moves(trace) / 2, 1_GiB, 0}, {}};
    Result<Plan> const plan = observed_plan(request, EvictionRule::delta);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_GT(count_of(*plan, FateKind::recompute), 0);
    EXPECT_TRUE(validate(*plan, trace, slow).ok());
}

TEST(ObservedPlan, a_step_that_does_not_fit_has_none) {
    Trace const trace = chain(8);
    Machine const machine = fast_machine();
    PlanRequest const request{trace, machine, {kChainSetBytes, 1_GiB, 0}, {}};
    Result<Plan> const plan = observed_plan(request, EvictionRule::delta);
    EXPECT_EQ(plan.error().code, Errc::out_of_memory);
}

}  // namespace
}  // namespace spillway
