// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/superneurons.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace spillway {
namespace {

/// Pairs of a convolution (even values) and a rectifier, which can be made again from it in a tenth
/// of its forward and goes through the convolution's module.
Trace convolutions(std::int64_t pairs) {
    Trace trace = chain(2 * pairs);
    for (std::int64_t i = 0; i < 2 * pairs; ++i) {
        TraceValue& value = trace.values[static_cast<std::size_t>(i)];
        bool const is_cheap = i % 2 == 1;
        value.slot.producer = is_cheap ? "ReluBackward0" : "ConvolutionBackward0";
        value.module = "h." + std::to_string(i / 2);
        if (is_cheap) {
            value.recipe =
                RecipeShape{.sources = {ValueId{i - 1}}, .duration_ns = kChainForwardNs / 10};
        }
    }
    return trace;
}

/// Two convolutions of one module, so that l_peak is two sets, and cheap values each made of the
/// one before.
Trace cheap_chain(std::int64_t cheap) {
    Trace trace = chain(2 + cheap);
    for (std::int64_t i = 0; i < 2 + cheap; ++i) {
        TraceValue& value = trace.values[static_cast<std::size_t>(i)];
        value.slot.producer = i < 2 ? "ConvolutionBackward0" : "GeluBackward0";
        value.module = i < 2 ? "h.0" : "h." + std::to_string(i);
        if (i >= 2) {
            value.recipe = RecipeShape{.sources = {ValueId{i - 1}}};
        }
    }
    return trace;
}

Result<Plan> superneurons_of(Trace const& trace, std::int64_t device_bytes) {
    return make_plan(
        {"superneurons", {}},
        trace,
        fast_machine(),
        {.device_bytes = device_bytes, .host_bytes = 1_GiB}
    );
}

/// The places of the values with that fate.
std::vector<std::size_t> with_fate(Trace const& trace, Plan const& plan, FateKind kind) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < trace.values.size(); ++i) {
        if (plan.fates.at(trace.values[i].slot).kind == kind) {
            found.push_back(i);
        }
    }
    return found;
}

TEST(Superneurons, a_layer_is_known_by_the_operator_that_made_the_value) {
    for (char const* const name : {"ConvolutionBackward0", "CudnnConvolutionBackward0"}) {
        EXPECT_EQ(superneurons_layer(name), SuperneuronsLayer::convolution) << name;
    }
    for (char const* const name :
         {"AddmmBackward0",
          "aten::addmm_",
          "BmmBackward0",
          "LinearBackward0",
          "AddbmmBackward0",
          "aten::_addmm_activation",
          "MkldnnRnnLayerBackward0",
          "ScaledDotProductFlashAttentionForCpuBackward0"}) {
        EXPECT_EQ(superneurons_layer(name), SuperneuronsLayer::product) << name;
    }
    for (char const* const name : {"AddBackward0", "aten::add_", "CatBackward0"}) {
        EXPECT_EQ(superneurons_layer(name), SuperneuronsLayer::join) << name;
    }
    for (char const* const name :
         {"ReluBackward0", "aten::gelu", "AddcmulBackward0", "CummaxBackward0", "input", ""}) {
        EXPECT_EQ(superneurons_layer(name), SuperneuronsLayer::cheap) << name;
    }
}

TEST(Superneurons, the_largest_layer_is_what_a_module_saves) {
    EXPECT_EQ(superneurons_peak_bytes(StepView(convolutions(4))), 2 * kChainSetBytes);
    EXPECT_EQ(superneurons_peak_bytes(StepView(chain(4))), kChainSetBytes);
    EXPECT_EQ(superneurons_peak_bytes(StepView(Trace{})), 0);
}

TEST(Superneurons, what_cheap_layers_made_goes_at_any_budget_and_lowers_the_peak_to_checkpoints) {
    Trace const trace = convolutions(12);
    Result<Plan> const plan = superneurons_of(trace, 0);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(with_fate(trace, *plan, FateKind::recompute).size(), 12U);
    EXPECT_EQ(with_fate(trace, *plan, FateKind::move).size(), 0U);
    // Theirs: the sum of the checkpoints' forward, and the layer in work.
    EXPECT_EQ(plan->predicted_peak_bytes, kChainFloorBytes + 13 * kChainSetBytes);
    std::int64_t const once_ns = kChainForwardNs + kChainBackwardNs;
    EXPECT_EQ(plan->predicted_step_ns, 24 * once_ns + 12 * kChainForwardNs / 10);
}

TEST(Superneurons, a_short_budget_moves_the_fewest_convolutions_used_least_recently) {
    Trace const trace = convolutions(16);
    // 17 sets and the floor without moves. Budget for 14.
    Result<Plan> const plan = superneurons_of(trace, kChainFloorBytes + 14 * kChainSetBytes);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(with_fate(trace, *plan, FateKind::move), (std::vector<std::size_t>{0, 2, 4}));
    Fate const& oldest = plan->fates.at(trace.values[2].slot);
    EXPECT_EQ(oldest.leaves, std::nullopt) << "when an allocation fails";
    EXPECT_EQ(oldest.returns, trace.values[4].slot) << "the backward of the convolution before";
    EXPECT_EQ(
        plan->predicted_step_ns,
        32 * (kChainForwardNs + kChainBackwardNs) + 16 * kChainForwardNs / 10
    );
}

TEST(Superneurons, where_convolutions_are_not_enough_the_rest_moves_too) {
    Trace trace = convolutions(8);
    for (std::size_t i = 0; i < trace.values.size(); ++i) {
        trace.values[i].recipe.reset();
    }
    std::int64_t const few = kChainFloorBytes + 6 * kChainSetBytes;  // of 16, 8 of convolutions
    Result<Plan> const plan = superneurons_of(trace, few);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(
        with_fate(trace, *plan, FateKind::move),
        (std::vector<std::size_t>{0, 1, 2, 3, 4, 6, 8, 10, 12, 14})
    );
}

TEST(Superneurons, a_segment_is_made_again_as_long_as_it_fits_under_the_largest_layer) {
    Trace const trace = cheap_chain(7);  // l_peak is two sets
    Result<Plan> const plan = superneurons_of(trace, 0);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(
        with_fate(trace, *plan, FateKind::recompute), (std::vector<std::size_t>{2, 3, 5, 6, 8})
    ) << "4 and 7 would be the third of their segment";
}

TEST(Superneurons, segments_that_one_value_joins_count_together) {
    Trace trace = cheap_chain(4);
    trace.values[3].recipe->sources = {ValueId{0}};
    trace.values[4].recipe->sources = {ValueId{2}, ValueId{3}};
    Result<Plan> const plan = superneurons_of(trace, 0);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(with_fate(trace, *plan, FateKind::recompute), (std::vector<std::size_t>{2, 3, 5}));
}

TEST(Superneurons, joins_products_and_what_has_held_sources_are_checkpoints) {
    Trace trace = cheap_chain(6);
    trace.values[2].slot.producer = "AddBackward0";
    trace.values[4].slot.producer = "AddmmBackward0";
    trace.values[7].recipe->sources = {ValueId{6}};
    for (TracePoint& point : trace.points) {
        std::erase(point.unshared, ValueId{6});  // the model holds it
    }
    Result<Plan> const plan = superneurons_of(trace, 0);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(with_fate(trace, *plan, FateKind::recompute), (std::vector<std::size_t>{3, 5}));
}

TEST(Superneurons, without_convolutions_products_move_first) {
    Trace trace = convolutions(8);
    for (std::size_t i = 0; i < trace.values.size(); i += 2) {
        trace.values[i].slot.producer = i % 4 == 0 ? "AddBackward0" : "AddmmBackward0";
    }
    Result<Plan> const plan = superneurons_of(trace, kChainFloorBytes + 7 * kChainSetBytes);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(with_fate(trace, *plan, FateKind::move), (std::vector<std::size_t>{2, 6}));
}

TEST(Superneurons, with_no_pool_it_moves_nothing) {
    Trace const trace = convolutions(8);
    Machine const machine = fast_machine();
    Result<Plan> const plan = plan_superneurons(
        {trace, machine, {.device_bytes = kChainFloorBytes + 4 * kChainSetBytes}, {}}
    );
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(with_fate(trace, *plan, FateKind::move).size(), 0U);
    EXPECT_EQ(with_fate(trace, *plan, FateKind::recompute).size(), 8U);
}

TEST(Superneurons, what_is_made_again_from_itself_or_what_comes_later_is_kept) {
    Trace trace = cheap_chain(3);
    trace.values[2].recipe->sources = {ValueId{3}};
    trace.values[3].recipe->sources = {ValueId{2}};
    Result<Plan> const plan = superneurons_of(trace, 0);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(with_fate(trace, *plan, FateKind::recompute), (std::vector<std::size_t>{3, 4}));
}

}  // namespace
}  // namespace spillway
