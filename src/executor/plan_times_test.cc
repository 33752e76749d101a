// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A plan's times, command by command, under a budget that holds everything.

#include "executor/executor.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kBytes = 100;

Slot place(std::int32_t number) {
    return {"op", 0, number};
}

/// "drop 1, wait", one a command.
std::string shown(std::vector<Command> const& commands) {
    std::string text;
    for (Command const& command : commands) {
        text += (text.empty() ? "" : ", ") + std::string(name_of(command.kind));
        text += command.value.valid() ? " " + std::to_string(command.value.number) : "";
    }
    return text;
}

class PlanTimesTest : public testing::Test {
  protected:
    void give(Plan const& plan) { (void)executor_.on(PlanGiven{plan}); }
    std::vector<Command> save(std::int32_t number) {
        used_bytes_ += kBytes;
        return executor_.on(Saved{{number}, kBytes, place(number), usage()});
    }
    std::vector<Command> unshare(std::int32_t number) {
        return executor_.on(Point{{{number}}, usage()});
    }
    std::vector<Command> need(std::int32_t number) { return executor_.on(Need{{number}, usage()}); }
    void finish(std::vector<Command> const& commands) {
        for (Command const& command : commands) {
            if (command.kind == CommandKind::store || command.kind == CommandKind::load) {
                (void)executor_.on(Finished{command.id});
            }
        }
    }
    [[nodiscard]] Usage usage() const { return {used_bytes_, used_bytes_}; }

    std::int64_t used_bytes_ = 0;
    Executor executor_{ExecutorOptions{
        .chooser = ChooserKind::planned, .device_bytes = 10'000, .host_bytes = 10'000}};
};

Plan plan_of(Fate const& fate) {
    Plan plan;
    plan.fates[place(0)] = fate;
    return plan;
}

TEST_F(PlanTimesTest, a_value_leaves_at_its_time_though_there_is_room) {
    give(plan_of({FateKind::move, Pool::host, place(2), {}}));
    (void)save(0);
    EXPECT_EQ(shown(unshare(0)), "reserve 0, store 0");
    EXPECT_EQ(shown(save(1)), "");
    EXPECT_EQ(shown(save(2)), "wait, drop 0") << "the drop waits for the store, which still runs";
    EXPECT_FALSE(executor_.all_on_device());
}

TEST_F(PlanTimesTest, without_a_time_it_stays_while_there_is_room) {
    give(plan_of({FateKind::move, Pool::host, {}, {}}));
    (void)save(0);
    finish(unshare(0));
    EXPECT_EQ(shown(save(1)), "");
}

TEST_F(PlanTimesTest, one_that_others_hold_at_its_time_leaves_when_they_do_not) {
    give(plan_of({FateKind::move, Pool::host, place(1), {}}));
    (void)save(0);
    EXPECT_EQ(shown(save(1)), "");
    EXPECT_EQ(shown(unshare(0)), "reserve 0, store 0, wait, drop 0");
}

TEST_F(PlanTimesTest, it_returns_at_its_time_and_not_before) {
    give(plan_of({FateKind::move, Pool::host, place(1), place(2)}));
    (void)save(0);
    finish(unshare(0));
    finish(save(1));
    (void)save(2);
    (void)save(3);
    EXPECT_EQ(shown(need(3)), "") << "there is room, but its time has not come";
    EXPECT_EQ(shown(need(2)), "reserve 0, load 0");
    EXPECT_EQ(shown(need(0)), "wait, bind 0");
}

TEST_F(PlanTimesTest, one_that_is_needed_before_its_time_returns_then) {
    give(plan_of({FateKind::move, Pool::host, place(1), place(2)}));
    (void)save(0);
    finish(unshare(0));
    finish(save(1));
    (void)save(2);
    EXPECT_EQ(shown(need(0)), "reserve 0, load 0, wait, bind 0");
    EXPECT_EQ(shown(need(2)), "");
}

TEST_F(PlanTimesTest, what_is_made_again_goes_when_its_sources_are_the_graphs_alone) {
    Plan plan;
    plan.fates[place(1)] = {.kind = FateKind::recompute};
    give(plan);
    (void)save(0);
    (void)save(1);
    (void)executor_.on(Made{{1}, {.sources = {ValueId{0}}}});
    EXPECT_EQ(shown(unshare(1)), "") << "something else holds its source";
    EXPECT_EQ(shown(unshare(0)), "drop 1");
    EXPECT_EQ(shown(need(1)), "run 1");
}

TEST_F(PlanTimesTest, what_waits_for_its_sources_to_be_made_again_is_not_stored_ahead) {
    Plan plan;
    plan.fates[place(0)] = {};
    plan.fates[place(1)] = {.kind = FateKind::recompute};
    give(plan);
    used_bytes_ = 9'500;  // near the limit
    (void)save(0);
    (void)save(1);
    (void)executor_.on(Made{{1}, {.sources = {ValueId{0}}}});
    EXPECT_EQ(shown(unshare(1)), "");
    (void)save(2);
    EXPECT_EQ(shown(unshare(2)), "reserve 2, store 2") << "as what the plan does not know";
    EXPECT_EQ(shown(unshare(0)), "drop 1");
}

TEST_F(PlanTimesTest, what_is_made_again_may_have_a_time_to_leave) {
    Plan plan;
    plan.fates[place(1)] = {.kind = FateKind::recompute, .leaves = place(2)};
    give(plan);
    (void)save(0);
    (void)save(1);
    (void)executor_.on(Made{{1}, {.sources = {ValueId{0}}}});
    (void)unshare(0);
    EXPECT_EQ(shown(unshare(1)), "");
    (void)save(2);
    EXPECT_EQ(shown(unshare(2)), "drop 1");
}

TEST_F(PlanTimesTest, what_is_to_be_made_again_and_cannot_stays) {
    Plan plan;
    plan.fates[place(0)] = {.kind = FateKind::recompute};
    give(plan);
    (void)save(0);
    EXPECT_EQ(shown(unshare(0)), "");
    EXPECT_EQ(shown(need(0)), "");
}

TEST_F(PlanTimesTest, the_state_between_two_steps_has_the_plan) {
    Plan const plan = plan_of({FateKind::move, Pool::host, place(1), {}});
    give(plan);
    ASSERT_TRUE(executor_.state().has_value());
    EXPECT_EQ(executor_.state()->plan, plan);
    Executor again(executor_.options(), *executor_.state());
    (void)again.on(Saved{{0}, kBytes, place(0), {kBytes, kBytes}});
    EXPECT_EQ(shown(again.on(Point{{{0}}, {kBytes, kBytes}})), "reserve 0, store 0");
}

TEST_F(PlanTimesTest, saves_are_quiet_until_a_plan_is_given) {
    EXPECT_TRUE(executor_.may_report_later(100));
    give(Plan());
    EXPECT_FALSE(executor_.may_report_later(100)) << "a plan's times are counted by saves";
}

}  // namespace
}  // namespace spillway
