// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/feedback.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

Slot const kLateSlot{"late", 0, 0};

/// The n-th plan returns its one value at the n-th slot.
Plan nth_plan(std::int32_t n) {
    Plan plan;
    plan.fates[kLateSlot] = {.kind = FateKind::move, .returns = Slot{"need", 0, n}};
    return plan;
}

std::int32_t number_of(Plan const& plan) {
    return plan.fates.at(kLateSlot).returns->occurrence;
}

/// Each mended plan is the next one.
Result<Plan> next_plan(PlanRan const& ran) {
    return nth_plan(number_of(ran.plan) + 1);
}

constexpr std::int64_t kStepNs = 1000;
ReturnWaits const kMuch{{kLateSlot, kStepNs / 2}};

TEST(Feedback, a_plan_that_waited_is_mended_of_what_it_waited_for) {
    Feedback feedback(nth_plan(0));
    ReturnWaits seen;
    std::optional<Plan> const next = feedback.took(kStepNs, kMuch, [&](PlanRan const& ran) {
        seen = ran.waits_ns;
        return next_plan(ran);
    });
    ASSERT_TRUE(next);
    EXPECT_EQ(*next, nth_plan(1));
    EXPECT_EQ(seen, kMuch);
    EXPECT_EQ(feedback.rounds(), 1);
    EXPECT_FALSE(feedback.is_done());
}

TEST(Feedback, a_small_share_of_the_step_is_no_reason) {
    for (std::int64_t const waited_ns : {std::int64_t{0}, kStepNs / Feedback::kWaitsShare}) {
        Feedback feedback(nth_plan(0));
        EXPECT_FALSE(feedback.took(kStepNs, {{kLateSlot, waited_ns}}, next_plan));
        EXPECT_TRUE(feedback.is_done());
        EXPECT_EQ(feedback.rounds(), 0);
    }
    Feedback feedback(nth_plan(0));
    std::int64_t const more_ns = kStepNs / Feedback::kWaitsShare + 1;
    EXPECT_TRUE(feedback.took(kStepNs, {{kLateSlot, more_ns}}, next_plan));
}

TEST(Feedback, a_plan_that_is_no_quicker_is_taken_back) {
    for (std::int64_t const then_ns : {kStepNs, kStepNs + 1}) {
        Feedback feedback(nth_plan(0));
        ASSERT_TRUE(feedback.took(kStepNs, kMuch, next_plan));
        std::optional<Plan> const back = feedback.took(then_ns, kMuch, next_plan);
        ASSERT_TRUE(back);
        EXPECT_EQ(*back, nth_plan(0));
        EXPECT_TRUE(feedback.is_done());
        EXPECT_FALSE(feedback.took(1, kMuch, next_plan));
    }
}

TEST(Feedback, goes_on_while_plans_get_quicker_for_eight_rounds_at_most) {
    Feedback feedback(nth_plan(0));
    std::int32_t present = 0;
    std::int64_t step_ns = kStepNs;
    while (!feedback.is_done()) {
        if (std::optional<Plan> const next = feedback.took(step_ns--, kMuch, next_plan)) {
            EXPECT_EQ(number_of(*next), ++present);
        }
        ASSERT_LE(present, Feedback::kMostRounds);
    }
    EXPECT_EQ(present, Feedback::kMostRounds);
    EXPECT_EQ(feedback.rounds(), Feedback::kMostRounds);
}

TEST(Feedback, ends_where_the_policy_has_nothing_to_mend_or_refuses) {
    Feedback same(nth_plan(0));
    EXPECT_FALSE(same.took(kStepNs, kMuch, [](PlanRan const& ran) {
        Plan plan = ran.plan;
        plan.predicted_step_ns = 7;
        return Result<Plan>(plan);
    }));
    EXPECT_TRUE(same.is_done());
    Feedback refused(nth_plan(0));
    EXPECT_FALSE(refused.took(kStepNs, kMuch, [](PlanRan const&) {
        return Result<Plan>(Error{Errc::out_of_memory, "it does not fit", ""});
    }));
    EXPECT_TRUE(refused.is_done());
    EXPECT_EQ(refused.rounds(), 0);
}

}  // namespace
}  // namespace spillway
