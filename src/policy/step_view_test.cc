// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/step_view.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

Slot of_layer(std::int32_t layer) {
    return {"layer", 0, layer};
}

TEST(StepView, a_layer_is_what_one_module_saves_in_one_go) {
    Trace trace = chain(5);
    for (std::size_t const i : {1, 2}) {
        trace.values[i].module = "h.1";
    }
    trace.values[3].module = trace.values[4].module = "";
    StepView const step(trace);
    std::vector<LayerView> const layers = layers_of(step);
    ASSERT_EQ(layers.size(), 4U) << "two that no module is known of are two";
    EXPECT_EQ(layers[1].values, (std::vector{ValueId{1}, ValueId{2}}));
    EXPECT_EQ(layers[1].first_needed, ValueId{2}) << "backward goes the other way";
    EXPECT_EQ(layers[1].begin_ns, 2 * kChainForwardNs);
    EXPECT_EQ(layers[1].forward_ns, 2 * kChainForwardNs) << "to the next layer's first save";
    EXPECT_EQ(layers[3].end_ns, 5 * kChainForwardNs) << "where backward begins";
}

TEST(StepView, a_time_of_a_plan_is_one_that_the_validator_takes) {
    Trace const trace = chain(4);
    StepView const step(trace);
    EXPECT_EQ(step.leaving_slot(ValueId{1}, ValueId{2}), of_layer(2));
    EXPECT_EQ(step.leaving_slot(ValueId{1}, ValueId{0}), std::nullopt) << "before it is saved";
    EXPECT_EQ(step.leaving_slot(ValueId{1}, std::nullopt), std::nullopt);
    EXPECT_EQ(step.returning_slot(ValueId{1}, ValueId{3}), of_layer(3));
    EXPECT_EQ(step.returning_slot(ValueId{1}, ValueId{1}), of_layer(1));
    EXPECT_EQ(step.returning_slot(ValueId{1}, ValueId{0}), std::nullopt) << "needed after it";
}

TEST(StepView, the_first_save_from_a_time_on) {
    Trace const trace = chain(4);
    StepView const step(trace);
    EXPECT_EQ(step.save_from(0, ValueId{2}), ValueId{2}) << "no earlier than its own";
    EXPECT_EQ(step.save_from(2 * kChainForwardNs, ValueId{0}), ValueId{1});
    EXPECT_EQ(step.save_from(2 * kChainForwardNs + 1, ValueId{0}), ValueId{2});
    EXPECT_EQ(step.save_from(4 * kChainForwardNs + 1, ValueId{0}), std::nullopt);
    EXPECT_EQ(step.free_ns(ValueId{1}), 2 * kChainForwardNs);
}

}  // namespace
}  // namespace spillway
