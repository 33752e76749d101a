// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/vdnn.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace spillway {
namespace {

/// Every third layer is a convolution.
Trace with_convolutions() {
    Trace trace = chain(9);
    for (std::size_t i = 0; i < trace.values.size(); i += 3) {
        trace.values[i].tensor_class = TensorClass::convolution_input;
    }
    return trace;
}

Result<Plan> plan_of(char const* name, std::int64_t device_bytes, double rate = 1e10) {
    return make_plan(
        {name, {}},
        with_convolutions(),
        fast_machine(rate),
        {.device_bytes = device_bytes, .host_bytes = 1_GiB}
    );
}

TEST(Vdnn, a_layers_input_goes_one_layer_later_and_is_fetched_one_layer_ahead) {
    Result<Plan> const plan = plan_of("vdnn_all", 0);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->fates.at(of_layer(4)).leaves, of_layer(5));
    EXPECT_EQ(plan->fates.at(of_layer(4)).returns, of_layer(5)) << "backward needs 5 before 4";
    EXPECT_EQ(plan->predicted_peak_bytes, kChainFloorBytes + 2 * kChainSetBytes);
    EXPECT_EQ(plan->predicted_step_ns, 9 * (kChainForwardNs + kChainBackwardNs));
}

TEST(Vdnn, where_the_copy_takes_longer_than_a_layer_each_layer_waits) {
    Result<Plan> const plan = plan_of("vdnn_all", 0, 0.5e9);  // 2 ms, a forward takes 1
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_GE(plan->predicted_step_ns, 9 * (2 * kChainForwardNs + kChainBackwardNs) - 3'000'000);
}

TEST(Vdnn, what_backward_itself_saves_stays) {
    Trace trace = chain(2);  // as where a checkpoint around the whole model saves again in backward
    for (TracePoint& point : trace.points) {
        point.phase = Phase::backward;
    }
    Result<Plan> const plan =
        make_plan({"vdnn_all", {}}, trace, fast_machine(), {.host_bytes = 1_GiB});
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->fates.at(of_layer(0)).kind, FateKind::keep);
}

TEST(Vdnn, conv_moves_the_inputs_of_convolutions_alone) {
    Result<Plan> const plan = plan_of("vdnn_conv", 0);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    for (std::int32_t i = 0; i < 9; ++i) {
        EXPECT_EQ(plan->fates.at(of_layer(i)).kind == FateKind::move, i % 3 == 0) << i;
    }
    EXPECT_EQ(plan->fates.at(of_layer(3)).returns, of_layer(6));
    EXPECT_EQ(
        make_plan({"vdnn_conv", {}}, chain(9), fast_machine(), {.host_bytes = 1_GiB}).error().code,
        Errc::unsupported
    );
}

TEST(Vdnn, a_map_that_a_relu_saves_too_is_a_convolutions_input) {
    Trace trace = chain(4);
    trace.values[1].classes = {TensorClass::relu_output, TensorClass::convolution_input};
    Result<Plan> const plan =
        make_plan({"vdnn_conv", {}}, trace, fast_machine(), {.host_bytes = 1_GiB});
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->fates.at(of_layer(1)).kind, FateKind::move);
    EXPECT_EQ(plan->fates.at(of_layer(2)).kind, FateKind::keep);
}

TEST(Vdnn, dyn_takes_the_first_of_none_conv_and_all_that_fits) {
    auto const moved = [](Plan const& plan) {
        return std::count_if(plan.fates.begin(), plan.fates.end(), [](auto const& each) {
            return each.second.kind == FateKind::move;
        });
    };
    EXPECT_EQ(moved(*plan_of("vdnn_dyn", 10 * kChainSetBytes)), 0);
    EXPECT_EQ(moved(*plan_of("vdnn_dyn", 8 * kChainSetBytes)), 3);
    EXPECT_EQ(moved(*plan_of("vdnn_dyn", 4 * kChainSetBytes)), 8);
    EXPECT_EQ(plan_of("vdnn_dyn", kChainSetBytes).error().code, Errc::out_of_memory);
}

TEST(Vdnn, dyn_takes_all_where_a_dry_run_does_not_fit_and_the_simulated_step_does) {
    std::int64_t const budget = 2 * kChainSetBytes;  // the dry run takes 2.5
    Result<Plan> const plan = plan_of("vdnn_dyn", budget);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_LE(plan->predicted_peak_bytes, budget);
    EXPECT_EQ(plan->fates, plan_of("vdnn_all", budget)->fates);
}

}  // namespace
}  // namespace spillway
