// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/step_estimate.h"

#include "base/units.h"
#include "memory/cpu_device.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>

namespace spillway {
namespace {

struct StepEstimateTest : testing::Test {
    void own(std::vector<torch::Tensor> const& tensors) { estimate.own(tensors, *device); }
    /// In a refusal that proved `needed_bytes`, with the weight of 1 MiB there.
    [[nodiscard]] StepEstimate::Whole whole(
        std::int64_t needed_bytes = 1_MiB, Phase phase = Phase::forward
    ) const {
        return estimate.whole(needed_bytes, 1_MiB, phase);
    }

    std::shared_ptr<CpuDevice> device = CpuDevice::open({.limit_bytes = 64_MiB}).value();
    StepEstimate estimate;
    torch::Tensor weight = torch::ones({1 << 18}, torch::requires_grad());  // 1 MiB
};

TEST_F(StepEstimateTest, parameters_stay_beside_gradients_and_adams_state) {
    own({weight});
    EXPECT_EQ(whole().with_gradients_bytes, 2_MiB);
    EXPECT_EQ(whole().with_optimizer_bytes, 4_MiB) << "two tensors a parameter";
}

TEST_F(StepEstimateTest, what_is_no_more_than_the_refusal_proved_is_not_told) {
    own({weight});
    EXPECT_EQ(whole(2_MiB).with_gradients_bytes, 0);
    EXPECT_EQ(whole(2_MiB).with_optimizer_bytes, 4_MiB);
    EXPECT_EQ(whole(4_MiB).words(), "");
}

TEST_F(StepEstimateTest, gradients_that_are_there_do_not_change_it) {
    weight.mutable_grad() = torch::ones_like(weight);
    own({weight});
    EXPECT_EQ(whole().with_gradients_bytes, 2_MiB);
}

TEST_F(StepEstimateTest, tensors_that_get_no_gradient_add_nothing) {
    own({torch::ones({1 << 18}), weight * 2, torch::Tensor()});
    EXPECT_EQ(whole().words(), "");
}

TEST_F(StepEstimateTest, an_update_knows_its_own_state_and_so_do_steps_after_it) {
    own({weight});
    estimate.update_begins(12_MiB, 3_MiB);
    EXPECT_EQ(whole(8_MiB, Phase::update).with_optimizer_bytes, 15_MiB);
    estimate.update_ends();
    EXPECT_EQ(whole(8_MiB).with_optimizer_bytes, 15_MiB);
    EXPECT_EQ(whole(16_MiB).words(), "") << "another step that needs more";
}

TEST_F(StepEstimateTest, after_an_update_that_nobody_reported_adam_is_not_told_of) {
    own({weight});
    estimate.updated();
    EXPECT_EQ(whole().with_optimizer_bytes, 0);
    EXPECT_EQ(whole().with_gradients_bytes, 2_MiB);
}

TEST_F(StepEstimateTest, an_update_without_state_adds_nothing) {
    own({weight});
    estimate.update_begins(1_MiB, 0);
    EXPECT_EQ(whole(1_MiB, Phase::update).words(), "");
}

TEST_F(StepEstimateTest, a_refusal_that_proved_nothing_is_not_added_to) {
    own({weight});
    EXPECT_EQ(whole(0).words(), "");
}

TEST_F(StepEstimateTest, the_words_give_bytes_that_can_be_typed_as_a_budget) {
    own({weight});
    EXPECT_EQ(
        whole().words(),
        " At least 2.0 MiB (2097152 bytes) are needed once every parameter has a gradient. At "
        "least 4.0 MiB (4194304 bytes) are needed if Adam steps: its first step adds its state."
    );
    estimate.update_begins(12_MiB, 3_MiB);
    EXPECT_EQ(
        whole().words(),
        " Give at least 15.0 MiB (15728640 bytes), needed once the optimizer that steps here has "
        "all its state."
    );
    estimate.update_ends();
    EXPECT_EQ(
        whole().words(),
        " Give at least 15.0 MiB (15728640 bytes): what a step before needed, and the state that "
        "its optimizer left."
    );
}

}  // namespace
}  // namespace spillway
