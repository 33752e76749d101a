// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/capuchin.h"

#include "policy/chain_test.h"
#include "policy/feedback.h"
#include "policy/forecast.h"

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

/// The plan of the fast machine has run on the slow one.
struct LateReturns {
    Trace trace = chain(8);
    Machine machine = fast_machine(3e8);  // 3.3 ms a set
    PlanRequest request{
        trace,
        machine,
        {.device_bytes = 6 * kChainSetBytes, .host_bytes = 1_GiB},
        {{"queue", 1.0}}};
    Plan first = plan_of(trace, 1e9, 6 * kChainSetBytes).value();

    Forecast costs(Plan const& plan) const {
        return forecast(request, request.budgets, plan).value();
    }
    Result<Plan> mend(PlanRan const& ran) {
        request.ran = &ran;
        return plan_capuchin(request);
    }
};

TEST(CapuchinFeedback, a_late_return_begins_five_percent_of_its_swap_earlier) {
    LateReturns late;
    PlanRan ran{late.first};
    Slot const oldest = of_layer(0);
    ran.plan.fates[oldest].returns = of_layer(3);  // needed at 16 ms; layer 4 at 14, 5 at 12
    ran.waits_ns[oldest] = 1;
    EXPECT_EQ(late.mend(ran)->fates.at(oldest).returns, of_layer(4));
    late.machine = fast_machine(2.4e7);  // 41.7 ms a set, and 5 % of it are more than 2 ms
    EXPECT_EQ(late.mend(ran)->fates.at(oldest).returns, of_layer(5));
    ran.plan.fates[oldest].returns = of_layer(7);
    EXPECT_EQ(late.mend(ran)->fates, ran.plan.fates) << "there is no earlier need";
}

TEST(CapuchinFeedback, what_was_in_time_stays_and_so_does_what_the_plan_does_not_move) {
    LateReturns late;
    PlanRan ran{late.first};
    ran.waits_ns = {{of_layer(0), 0}, {of_layer(7), 9}, {{"unknown", 0, 0}, 9}};
    EXPECT_EQ(late.mend(ran)->fates, late.first.fates);
}

TEST(CapuchinFeedback, rounds_of_it_make_a_late_plan_quicker) {
    LateReturns late;
    Plan present = late.first;
    std::int64_t const first_ns = late.costs(present).step_ns;
    ASSERT_FALSE(late.costs(present).waits_ns.empty());
    Feedback feedback(present);
    while (!feedback.is_done()) {
        Forecast const costs = late.costs(present);
        std::optional<Plan> next = feedback.took(
            costs.step_ns, costs.waits_ns, [&](PlanRan const& ran) { return late.mend(ran); }
        );
        present = next ? *next : present;
    }
    EXPECT_GT(feedback.rounds(), 0);
    EXPECT_NE(present.fates, late.first.fates);
    EXPECT_LT(late.costs(present).step_ns, first_ns);
}

TEST(CapuchinFeedback, make_plan_mends_the_plan_that_has_run) {
    LateReturns late;
    PlanRan ran{late.first};
    ran.plan.fates[of_layer(0)].returns = of_layer(3);
    ran.waits_ns[of_layer(0)] = 1;
    Result<Plan> const plan =
        make_plan({"capuchin", {}}, late.trace, late.machine, late.request.budgets, &ran);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->fates.at(of_layer(0)).returns, of_layer(4));
    EXPECT_EQ(plan->predicted_step_ns, late.costs(*plan).step_ns);
}

TEST(Capuchin, swaps_that_hide_alone_and_not_together_are_fewer) {
    // 5 ms a set, 8 ms of forward: the first has gone at 6, the second would at 11.
    Trace const trace = with_recipes(8);
    Budgets const budgets{.device_bytes = 5 * kChainSetBytes, .host_bytes = 1_GiB};
    Machine const machine = fast_machine(2e8);
    Result<Plan> const queue = make_plan({"capuchin", {}}, trace, machine, budgets);
    Result<Plan> const alone = make_plan({"capuchin", {{"queue", 0}}}, trace, machine, budgets);
    ASSERT_TRUE(queue.ok() && alone.ok());
    EXPECT_EQ(count(*queue, FateKind::move), 1);
    EXPECT_EQ(count(*alone, FateKind::move), 4);
    EXPECT_LT(queue->predicted_step_ns, alone->predicted_step_ns);
}

}  // namespace
}  // namespace spillway
