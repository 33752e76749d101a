// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/improve.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>

#include <utility>

namespace spillway {
namespace {

constexpr std::int64_t kAnyNs = 0;

Plan all_with(Trace const& trace, FateKind kind) {
    Plan plan;
    for (TraceValue const& value : trace.values) {
        bool const can_be = kind != FateKind::recompute || value.recipe;
        plan.fates[value.slot] = {.kind = can_be ? kind : FateKind::keep, .pool = Pool::host};
    }
    return plan;
}

JudgedPlan start_with(PlanRequest const& request, FateKind kind) {
    auto start = judged(request, "start", all_with(request.trace, kind));
    EXPECT_TRUE(start.has_value());
    return std::move(start).value_or(JudgedPlan());
}

TEST(Improve, what_is_made_again_for_nothing_stays) {
    Trace const trace = blocks(6);
    Machine const machine = fast_machine();
    PlanRequest const request{trace, machine, {peak_without_moves(trace), 0, 0}, {}};
    JudgedPlan const start = start_with(request, FateKind::recompute);
    JudgedPlan const best = improved(request, {start}, {.tries = 64, .least_ns = kAnyNs});
    EXPECT_GT(start.forecast.costs.step_ns, 6 * (kChainForwardNs + kChainBackwardNs));
    EXPECT_EQ(best.forecast.costs.step_ns, 6 * (kChainForwardNs + kChainBackwardNs));
}

TEST(Improve, what_a_slow_link_does_not_hide_is_made_again) {
    Trace const trace = blocks(6);
    Machine const machine = fast_machine(1e8);
    PlanRequest const request{trace, machine, {peak_without_moves(trace) / 2, 1_GiB, 0}, {}};
    JudgedPlan const start = start_with(request, FateKind::move);
    JudgedPlan const best = improved(request, {start}, {.tries = 64, .least_ns = kAnyNs});
    EXPECT_LT(best.forecast.costs.step_ns, start.forecast.costs.step_ns / 2);
    EXPECT_EQ(
        *judged(request, "again", best.plan)->forecast.delays_ns.data(),
        best.forecast.delays_ns.front()
    );
}

TEST(Improve, without_tries_or_where_nothing_can_be_quicker_the_best_start_stays) {
    Trace const trace = blocks(6);
    Machine const machine = fast_machine(1e8);
    PlanRequest const request{trace, machine, {peak_without_moves(trace) / 2, 1_GiB, 0}, {}};
    JudgedPlan const slow = start_with(request, FateKind::move);
    JudgedPlan const quick = start_with(request, FateKind::recompute);
    ASSERT_TRUE(quick.is_better_than(slow));
    EXPECT_EQ(improved(request, {slow, quick}, {.tries = 0, .least_ns = 0}).plan, quick.plan);
    std::int64_t const least = quick.forecast.costs.step_ns;
    EXPECT_EQ(improved(request, {slow, quick}, {.tries = 9, .least_ns = least}).plan, quick.plan);
}

}  // namespace
}  // namespace spillway
