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

/// With one part in 64 on top.
std::int64_t with_slack(std::int64_t bytes) {
    return bytes + bytes / 64;
}

struct StepEstimateTest : testing::Test {
    void own(std::vector<torch::Tensor> const& tensors) { estimate.own(tensors, *device); }
    [[nodiscard]] StepEstimate::Whole whole(Phase phase = Phase::forward) const {
        return estimate.whole(8_MiB, phase);
    }

    std::shared_ptr<CpuDevice> device = CpuDevice::open({.limit_bytes = 64_MiB}).value();
    StepEstimate estimate;
    torch::Tensor weight = torch::ones({1 << 18}, torch::requires_grad());  // 1 MiB
};

TEST_F(StepEstimateTest, gradients_and_adams_state_come_on_top) {
    own({weight});
    EXPECT_EQ(whole().with_gradients_bytes, with_slack(9_MiB));
    EXPECT_EQ(whole().with_optimizer_bytes, with_slack(11_MiB)) << "two tensors a parameter";
    EXPECT_FALSE(whole().is_stepping);
}

TEST_F(StepEstimateTest, a_gradient_that_is_there_does_not_come_again) {
    weight.mutable_grad() = torch::ones_like(weight);
    own({weight});
    EXPECT_EQ(whole().with_gradients_bytes, 0);
    EXPECT_EQ(whole().with_optimizer_bytes, with_slack(10_MiB));
}

TEST_F(StepEstimateTest, tensors_that_get_no_gradient_add_nothing) {
    own({torch::ones({1 << 18}), weight * 2, torch::Tensor()});
    EXPECT_EQ(whole().words(), "");
}

TEST_F(StepEstimateTest, an_update_knows_its_own_state_and_adam_is_not_guessed_any_more) {
    own({weight});
    estimate.update_begins(12_MiB, 3_MiB);
    EXPECT_EQ(whole(Phase::update).with_optimizer_bytes, with_slack(15_MiB));
    EXPECT_TRUE(whole(Phase::update).is_stepping);
    estimate.update_ends();
    EXPECT_EQ(whole(Phase::update).with_optimizer_bytes, 0);
    EXPECT_EQ(whole().with_optimizer_bytes, 0);
    EXPECT_EQ(whole().with_gradients_bytes, with_slack(9_MiB));
}

TEST_F(StepEstimateTest, after_an_update_that_nobody_reported_adam_is_not_guessed_either) {
    own({weight});
    estimate.updated();
    EXPECT_EQ(whole().with_optimizer_bytes, 0);
    EXPECT_EQ(whole().with_gradients_bytes, with_slack(9_MiB));
}

TEST_F(StepEstimateTest, a_later_update_adds_nothing_to_a_larger_need) {
    estimate.update_begins(1_MiB, 0);
    EXPECT_EQ(whole(Phase::update).words(), "");
}

TEST_F(StepEstimateTest, a_refusal_that_proved_nothing_is_not_added_to) {
    own({weight});
    EXPECT_EQ(estimate.whole(0, Phase::forward).words(), "");
}

TEST_F(StepEstimateTest, the_words_give_bytes_that_can_be_typed_as_a_budget) {
    own({weight});
    EXPECT_EQ(
        whole().words(),
        " Give at least about 11.2 MiB (11714560 bytes): Adam's first step will add its state to "
        "the 9.1 MiB (9584640 bytes), needed once every parameter has a gradient."
    );
    estimate.update_begins(12_MiB, 3_MiB);
    EXPECT_EQ(
        whole(Phase::update).words(),
        " Give at least about 15.2 MiB (15974400 bytes), needed once the optimizer that steps here "
        "has all its state."
    );
}

}  // namespace
}  // namespace spillway
