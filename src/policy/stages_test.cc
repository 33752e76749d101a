// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/stages.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>

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

TEST(Stages, beside_them_is_the_floor_and_what_no_stage_has) {
    Trace trace = blocks(4);
    StepView const step(trace);
    EXPECT_EQ(bytes_beside_stages(step, stages_of(step)), kChainFloorBytes);
    trace.values[5].size_bytes = 100;
    StepView const other(trace);
    EXPECT_EQ(bytes_beside_stages(other, stages_of(other)), kChainFloorBytes + 100);
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
