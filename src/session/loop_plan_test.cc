// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A loop that was opened with a plan, on real memory.

#include "session/loop_rig.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kPlannedSize = 64_KiB;
constexpr std::int64_t kAmple = 4_MiB;
Slot const kEachValue{"test", 0, 0};  // the rig saves all as this

Plan plan_of_all(Fate fate) {
    Plan plan;
    plan.policy = "by hand";
    plan.predicted_step_ns = 5;
    plan.predicted_peak_bytes = kPlannedSize;
    plan.fates[kEachValue] = std::move(fate);
    return plan;
}

struct OpenedWithPlan : Rig {
    explicit OpenedWithPlan(Plan plan, std::int64_t limit_bytes = kAmple)
        : Rig(limit_bytes,
              {},
              {},
              64_MiB,
              ChooserKind::planned,
              Pool::nvme,
              {},
              NonFinite::keep,
              kCodedBytes,
              std::move(plan)) {}

    void step(std::int64_t number, int count) {
        loop->begin_step(number);
        loop->phase(Phase::forward);
        std::vector<ValueId> const values = save_all(count, kPlannedSize);
        loop->phase(Phase::backward);
        for (auto value = values.rbegin(); value != values.rend(); ++value) {
            EXPECT_TRUE(loop->need(*value).ok());
            expect_intact(*value);
            done_with(*value);
        }
        loop->phase(Phase::update);
    }
};

TEST(LoopPlan, runs_from_where_the_first_step_begins) {
    OpenedWithPlan rig(plan_of_all({.kind = FateKind::move, .leaves = kEachValue}));
    std::vector<ValueId> const before = rig.save_all(4, kPlannedSize);
    EXPECT_EQ(rig.loop->report().plan, PlanReport());
    EXPECT_EQ(rig.loop->report().stored_bytes, 0);
    rig.step(1, 6);
    std::int64_t const stored_bytes = rig.loop->report().stored_bytes;
    EXPECT_GE(stored_bytes, 4 * kPlannedSize);  // the last may still have been shared
    EXPECT_LE(stored_bytes, 6 * kPlannedSize);  // and none of those before
    for (ValueId const value : before) {
        rig.expect_intact(value);
        rig.done_with(value);
    }
}

TEST(LoopPlan, what_was_foretold_stands_beside_what_came_of_it) {
    OpenedWithPlan rig(plan_of_all({.kind = FateKind::move, .leaves = kEachValue}));
    for (std::int64_t number = 1; number <= 3; ++number) {
        rig.step(number, 6);
    }
    PlanReport const plan = rig.loop->report().plan;
    EXPECT_EQ(plan.policy, "by hand");
    EXPECT_EQ(plan.refusal, "");
    EXPECT_EQ(plan.foretold_step_ns, 5);
    EXPECT_EQ(plan.foretold_peak_bytes, kPlannedSize);
    EXPECT_EQ(plan.recorded_step_ns, 0);
    EXPECT_EQ(plan.steps, 2);  // whole ones
    EXPECT_GT(plan.step_ns, 0);
    EXPECT_GE(plan.peak_bytes, kPlannedSize);
    EXPECT_FALSE(rig.loop->plans());
}

std::string said_under(Plan plan) {
    testing::internal::CaptureStderr();
    {
        OpenedWithPlan rig(std::move(plan));
        rig.loop->begin_step(1);  // an evaluation saves nothing
        rig.step(2, 6);
        rig.step(3, 6);
    }
    return testing::internal::GetCapturedStderr();
}

TEST(LoopPlan, of_another_model_is_said_to_be_so) {
    Plan plan = plan_of_all({.kind = FateKind::keep});
    plan.policy = "of another model";
    for (std::int32_t i = 0; i < 3; ++i) {
        plan.fates[Slot{"convolution", 0, i}] = {};
    }
    EXPECT_NE(said_under(plan).find("saved only 1 of its 4 tensors"), std::string::npos);
    plan = plan_of_all({.kind = FateKind::keep});
    EXPECT_EQ(said_under(plan), "");
}

TEST(LoopPlan, is_followed_while_a_step_is_traced) {
    OpenedWithPlan rig(plan_of_all({.kind = FateKind::move, .leaves = kEachValue}));
    std::string const file = ::testing::TempDir() + "/loop_plan_" + std::to_string(::getpid());
    ASSERT_TRUE(rig.loop->trace_a_step(file).ok());
    for (std::int64_t number = 1; number <= 3; ++number) {
        rig.step(number, 6);
    }
    EXPECT_FALSE(rig.loop->is_tracing());
    EXPECT_EQ(rig.loop->report().plan.policy, "by hand");
    EXPECT_GE(rig.loop->report().stored_bytes, 3 * 4 * kPlannedSize);
    std::remove(file.c_str());
}

TEST(LoopPlan, what_is_to_be_made_again_goes_by_its_recipe) {
    OpenedWithPlan rig(plan_of_all({.kind = FateKind::recompute}));
    EXPECT_TRUE(rig.loop->makes_again_by_plan());
    EXPECT_FALSE(OpenedWithPlan(plan_of_all({})).loop->makes_again_by_plan());
    rig.driver->make = [&rig](ValueId value) -> Result<std::int64_t> {
        void* const block = rig.device->try_allocate(kPlannedSize, {0});
        std::memset(block, rig.bytes.at(value), static_cast<std::size_t>(kPlannedSize));
        rig.driver->put(value, block);
        return 2;
    };
    rig.loop->begin_step(1);
    rig.loop->phase(Phase::forward);
    ValueId const source = rig.save(kPlannedSize).value();
    ValueId const made = rig.save(kPlannedSize).value();
    rig.driver->recipes[made] = {{{source}, 2, 1000, 0}, kPlannedSize};
    std::vector<ValueId> const others = rig.save_all(2, kPlannedSize);
    EXPECT_TRUE(rig.driver->has(source));  // it has no recipe, and stays
    EXPECT_FALSE(rig.driver->has(made));
    rig.loop->phase(Phase::backward);
    for (ValueId const value : {others[1], others[0], made, source}) {
        EXPECT_TRUE(rig.loop->need(value).ok());
        rig.expect_intact(value);
        rig.done_with(value);
    }
    EXPECT_EQ(rig.loop->report().recomputed_values, 1);
    EXPECT_EQ(rig.loop->report().stored_bytes, 0);
}

TEST(LoopPlan, a_budget_below_what_it_keeps_is_kept) {
    OpenedWithPlan rig(plan_of_all({.kind = FateKind::keep}), 6 * kPlannedSize);
    rig.step(1, 12);
    EXPECT_GT(rig.loop->report().stored_bytes, 0);
    EXPECT_LE(rig.loop->report().device_peak_bytes, 6 * kPlannedSize);
}

}  // namespace
}  // namespace spillway
