// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A loop whose plan is mended by what its steps waited for, on tiers that take their time.

#include "session/loop_rig.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kFeedbackSize = 4_KiB;
constexpr std::int32_t kFeedbackValues = 6;
constexpr int kTransferMs = 50;

Slot nth_slot(std::int32_t n) {
    return {"test", 0, n};
}

/// The first so many leave at the last save, and return when they are needed, which is late.
Plan moves_first(std::int32_t count) {
    Plan plan{.policy = "capuchin", .fates = {}};
    for (std::int32_t i = 0; i < kFeedbackValues; ++i) {
        plan.fates[nth_slot(i)] = {};
        if (i < count) {
            plan.fates[nth_slot(i)] = {
                .kind = FateKind::move,
                .leaves = nth_slot(kFeedbackValues - 1),
                .returns = nth_slot(i)};
        }
    }
    return plan;
}

struct FeedbackRig : Rig {
    /// The planner's first plan, and each that it makes of one that has run.
    FeedbackRig(Plan first, Plan mended, std::string policy = "capuchin")
        : Rig(
              4_MiB,
              {},
              {},
              64_MiB,
              ChooserKind::planned,
              Pool::nvme,
              {},
              NonFinite::keep,
              kCodedBytes,
              std::nullopt,
              [this,
               first = std::move(first),
               mended = std::move(mended)](Trace const&, PlanRan const* ran) {
                  if (ran != nullptr) {
                      asked.push_back(*ran);
                  }
                  return ran == nullptr ? first : mended;
              },
              std::move(policy)
          ) {
        tier->set_delay_ms(kTransferMs);
    }

    void step() {
        loop->begin_step(++steps);
        loop->phase(Phase::forward);
        std::vector<ValueId> values;
        for (occurrence = 0; occurrence < kFeedbackValues; ++occurrence) {
            values.push_back(save(kFeedbackSize).value());
        }
        loop->phase(Phase::backward);
        for (auto value = values.rbegin(); value != values.rend(); ++value) {
            EXPECT_TRUE(loop->need(*value).ok());
            expect_intact(*value);
            done_with(*value);
        }
        loop->phase(Phase::update);
    }
    void run_steps(int count) {
        for (int i = 0; i < count; ++i) {
            step();
        }
    }

    std::vector<PlanRan> asked;
    std::int64_t steps = 0;
};

/// The second step is recorded, and the plan runs from the third on.
constexpr int kBeforePlan = 2;

TEST(LoopFeedback, a_plan_is_mended_of_what_was_late_and_waits_no_more) {
    FeedbackRig rig(moves_first(4), moves_first(0));
    rig.run_steps(kBeforePlan + PlanTrial::kSteps);
    EXPECT_TRUE(rig.asked.empty());
    rig.run_steps(1);
    ASSERT_EQ(rig.asked.size(), 1U);
    EXPECT_EQ(rig.asked[0].plan, moves_first(4));
    EXPECT_LE(rig.asked[0].waits_ns.size(), 4U);
    for (auto const& [slot, waited_ns] : rig.asked[0].waits_ns) {
        EXPECT_LT(slot.occurrence, 4);
        EXPECT_GT(waited_ns, 0);
    }
    EXPECT_EQ(rig.loop->report().plan.feedback_rounds, 1);
    std::int64_t const loaded_bytes = rig.loop->report().loaded_bytes;
    std::int64_t const stalled_ns = rig.loop->report().stall_load_ns;
    EXPECT_GT(loaded_bytes, 0);
    rig.run_steps(2 * PlanTrial::kSteps);
    EXPECT_EQ(rig.asked.size(), 1U);
    EXPECT_EQ(rig.loop->report().loaded_bytes, loaded_bytes);
    EXPECT_EQ(rig.loop->report().stall_load_ns, stalled_ns);
}

TEST(LoopFeedback, a_slower_plan_is_taken_back) {
    FeedbackRig rig(moves_first(1), moves_first(kFeedbackValues));
    rig.run_steps(kBeforePlan + 2 * PlanTrial::kSteps + 1);
    EXPECT_EQ(rig.asked.size(), 1U);
    std::int64_t const loaded_bytes = rig.loop->report().loaded_bytes;
    rig.run_steps(4);
    EXPECT_EQ(rig.asked.size(), 1U);
    EXPECT_EQ(rig.loop->report().loaded_bytes, loaded_bytes + 4 * kFeedbackSize);
    EXPECT_EQ(rig.loop->report().plan.feedback_rounds, 1);
}

TEST(LoopFeedback, where_nothing_waited_there_is_none) {
    FeedbackRig rig(moves_first(0), moves_first(1));
    rig.run_steps(kBeforePlan + 3 * PlanTrial::kSteps);
    EXPECT_TRUE(rig.asked.empty());
    EXPECT_EQ(rig.loop->report().plan.feedback_rounds, 0);
}

TEST(LoopFeedback, a_policy_that_does_not_learn_is_not_asked_again) {
    FeedbackRig rig(moves_first(4), moves_first(0), "vdnn_all");
    rig.run_steps(kBeforePlan + 2 * PlanTrial::kSteps);
    EXPECT_TRUE(rig.asked.empty());
}

}  // namespace
}  // namespace spillway
