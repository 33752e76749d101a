// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/stages.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace spillway {
namespace {

TEST(Stages, a_block_has_its_input_its_tape_and_what_making_them_again_takes) {
    Trace const trace = blocks(4);
    StepView const step(trace);
    std::vector<Stage> const stages = stages_of(step);
    ASSERT_EQ(stages.size(), 4U);
    EXPECT_EQ(stages[1].input, ValueId{2});
    EXPECT_EQ(stages[1].tape, std::vector<ValueId>{ValueId{3}});
    EXPECT_EQ(stages[1].input_bytes, kBlockInputBytes);
    EXPECT_EQ(stages[1].tape_bytes, kBlockTapeBytes);
    EXPECT_EQ(stages[1].input_ns, kBlockInputNs);
    EXPECT_EQ(stages[1].tape_ns, kBlockTapeNs);
    EXPECT_EQ(stages[1].backward_ns, kChainBackwardNs);
    EXPECT_TRUE(stages[1].input_has_recipe);
    EXPECT_FALSE(stages[0].input_has_recipe);
    EXPECT_EQ(whole_bytes(stages[1]), kBlockInputBytes + kBlockTapeBytes);
}

TEST(Stages, what_has_no_recipe_can_only_move_and_what_is_small_stays) {
    Trace trace = blocks(4);
    trace.values[3].recipe.reset();
    trace.values[5].size_bytes = 100;
    StepView const step(trace);
    std::vector<Stage> const stages = stages_of(step);
    EXPECT_EQ(stages[1].others, std::vector<ValueId>{ValueId{3}});
    EXPECT_EQ(stages[1].other_bytes, kBlockTapeBytes);
    EXPECT_TRUE(stages[2].tape.empty());
    EXPECT_TRUE(stages[2].others.empty());
}

TEST(Stages, an_input_that_no_module_is_known_of_is_the_next_unit_s) {
    Trace trace = blocks(4);
    for (std::size_t i = 0; i < trace.values.size(); i += 2) {
        trace.values[i].module.clear();
    }
    StepView const step(trace);
    std::vector<Stage> const stages = stages_of(step);
    ASSERT_EQ(stages.size(), 4U);
    EXPECT_EQ(stages[2].input, ValueId{4});
    EXPECT_EQ(stages[2].tape, std::vector<ValueId>{ValueId{5}});
    EXPECT_EQ(stages[0].input, ValueId{1}) << "before the first nothing tells";
}

TEST(Stages, plans_are_made_for_all_the_room_first_and_for_none_last_however_long_the_chain_is) {
    for (std::size_t const length : {4, 400, 3000}) {
        Trace const trace = blocks(static_cast<int>(length));
        StepView const step(trace);
        std::vector<Stage> const stages = stages_of(step);
        ASSERT_EQ(stages.size(), length);
        std::vector<std::int64_t> rooms;
        auto const plan_all_as = [&](StageFate fate) {
            rooms.clear();
            return quickest_plan_that_fits(
                {trace, fast_machine(), {1_GiB, 1_GiB, 0}, {}},
                step,
                stages,
                [&](std::int64_t room) {
                    rooms.push_back(room);
                    return std::vector<StageFate>(length, fate);
                }
            );
        };
        EXPECT_TRUE(plan_all_as(StageFate::keep).ok());
        if (length == 4) {
            EXPECT_EQ(rooms.size(), 1U) << "nothing is quicker than to compute alone";
        }
        EXPECT_TRUE(plan_all_as(StageFate::checkpoint).ok());
        EXPECT_GT(rooms.front(), 1_GiB / 2) << length;
        EXPECT_EQ(rooms.back(), 0) << length;
        EXPECT_GE(rooms.size(), 3U) << length;
        EXPECT_EQ(rooms.size() == 10U, length < 300) << length;
    }
}

TEST(Stages, beside_them_is_the_floor_and_what_no_stage_has_where_each_stage_runs) {
    Trace trace = blocks(4);
    StepView const step(trace);
    EXPECT_EQ(bytes_beside_stages(step, stages_of(step)), kChainFloorBytes);
    EXPECT_EQ(most_bytes_beside(stages_of(step)), 0);
    trace.values[5].size_bytes = 100;  // block 2's tape: it stays from there to its backward
    trace.points.back().floor_bytes += 30;
    StepView const other(trace);
    std::vector<Stage> const stages = stages_of(other);
    EXPECT_EQ(bytes_beside_stages(other, stages), kChainFloorBytes);
    EXPECT_EQ(stages[0].beside_bytes, 30);
    EXPECT_EQ(stages[1].beside_bytes, 0);
    EXPECT_EQ(stages[2].beside_bytes, 100);
    EXPECT_EQ(stages[3].beside_bytes, 100);
}

TEST(Stages, the_loss_is_a_stage_that_saves_nothing) {
    Trace trace = blocks(4);
    auto const backward =
        std::find_if(trace.points.begin(), trace.points.end(), [](auto const& each) {
            return each.phase == Phase::backward;
        });
    ValueId const logits{8};
    trace.values.push_back({.slot = {"loss", 0, 0}, .size_bytes = 700, .module = "head"});
    trace.points.insert(
        backward,
        {{.duration_ns = 40, .floor_bytes = kChainFloorBytes + 60, .saved = {logits}},
         {.phase = Phase::backward,
          .duration_ns = 90,
          .floor_bytes = kChainFloorBytes + 80,
          .needed = {logits},
          .dropped = {logits}}}
    );
    StepView const step(trace);
    std::vector<Stage> const stages = stages_of(step);
    Stage const end = end_stage(step, stages);
    EXPECT_EQ(end.beside_bytes, 780);
    EXPECT_EQ(end.forward_ns, 40);
    EXPECT_EQ(end.backward_ns, 90);
    EXPECT_EQ(whole_bytes(end), 0);
    EXPECT_EQ(most_bytes_beside(stages), 0);
}

TEST(Stages, fates_of_stages_are_those_of_their_values) {
    Trace const trace = blocks(5);
    Machine const machine = fast_machine();
    StepView const step(trace);
    PlanRequest const request{trace, machine, {.host_bytes = 1_GiB}, {}};
    Plan const plan = plan_of_stages(
        request,
        step,
        stages_of(step),
        {StageFate::move_input,
         StageFate::inner,
         StageFate::move,
         StageFate::checkpoint,
         StageFate::keep}
    );
    auto const kinds = [&](std::int32_t block) {
        return std::pair(
            plan.fates.at(input_of_block(block)).kind, plan.fates.at(tape_of_block(block)).kind
        );
    };
    EXPECT_EQ(kinds(0), std::pair(FateKind::move, FateKind::recompute));
    EXPECT_EQ(kinds(1), std::pair(FateKind::recompute, FateKind::recompute));
    EXPECT_EQ(kinds(2), std::pair(FateKind::move, FateKind::move));
    EXPECT_EQ(kinds(3), std::pair(FateKind::keep, FateKind::recompute));
    EXPECT_EQ(kinds(4), std::pair(FateKind::keep, FateKind::keep));
    EXPECT_TRUE(validate(plan, trace, machine).ok());
}

TEST(Stages, a_step_without_layers_or_recipes_is_refused_by_name) {
    Trace none = chain(1);
    none.values[0].module.clear();
    EXPECT_NE(
        stages_with_recipes(StepView(none)).error().message().find("nothing in the step repeats"),
        std::string::npos
    );
    EXPECT_NE(
        stages_with_recipes(StepView(chain(4))).error().message().find("has a recipe"),
        std::string::npos
    );
}

}  // namespace
}  // namespace spillway
