// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/plan_trial.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace spillway {
namespace {

Plan plan_called(std::string name) {
    Plan plan;
    plan.fates[Slot{std::move(name), 0, 0}] = {};
    return plan;
}

struct TrialRig {
    PlanTrial trial{plan_called("first"), [this](PlanRan const& ran) {
                        asked.push_back(ran);
                        return Result<Plan>(plan_called("mended " + std::to_string(asked.size())));
                    }};
    std::vector<PlanRan> asked;

    /// Its one value, of slot "a", is waited for.
    std::optional<Plan> step(std::int64_t took_ns, std::int64_t waited_ns) {
        ValueId const value{next++};
        trial.saved(value, Slot{"a", 0, 0});
        return trial.step_ended(took_ns, {{value, waited_ns}, {ValueId{999}, 100000}});
    }

    std::int64_t next = 0;
};

TEST(PlanTrial, the_quicker_of_a_plans_second_and_third_step_counts) {
    TrialRig rig;
    EXPECT_FALSE(rig.step(100, 10));
    EXPECT_FALSE(rig.step(1000, 300));
    std::optional<Plan> const next = rig.step(900, 200);
    ASSERT_TRUE(next);
    EXPECT_EQ(*next, plan_called("mended 1"));
    ASSERT_EQ(rig.asked.size(), 1U);
    EXPECT_EQ(rig.asked[0].plan, plan_called("first"));
    // A value that is none of the step's is not counted.
    EXPECT_EQ(rig.asked[0].waits_ns, (ReturnWaits{{Slot{"a", 0, 0}, 200}}));
    EXPECT_EQ(rig.trial.rounds(), 1);
    // The mended one has steps of its own: 901 is slower than the 900 before.
    EXPECT_FALSE(rig.step(1, 0));
    EXPECT_FALSE(rig.step(901, 0));
    std::optional<Plan> const back = rig.step(902, 0);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, plan_called("first"));
    EXPECT_TRUE(rig.trial.is_done());
}

TEST(PlanTrial, a_step_that_saves_nothing_is_none) {
    TrialRig rig;
    for (int i = 0; i < 5; ++i) {
        EXPECT_FALSE(rig.trial.step_ended(1, {}));
    }
    EXPECT_FALSE(rig.step(100, 50));
    EXPECT_FALSE(rig.step(100, 50));
    EXPECT_TRUE(rig.step(100, 50));
}

TEST(PlanTrial, without_waits_the_plan_stays) {
    TrialRig rig;
    for (int i = 0; i < PlanTrial::kSteps; ++i) {
        EXPECT_FALSE(rig.step(1000, 1));
    }
    EXPECT_TRUE(rig.trial.is_done());
    EXPECT_TRUE(rig.asked.empty());
    EXPECT_EQ(rig.trial.rounds(), 0);
}

}  // namespace
}  // namespace spillway
