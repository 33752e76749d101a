// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A saved tensor that was given other data lives as long as a hook may ask for it, and no longer.

#include "torch_driver/autograd/replaced_data.h"

#include "base/units.h"
#include "spillway/session.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <filesystem>
#include <memory>

namespace spillway {
namespace {

class ReplacedData : public testing::Test {
  protected:
    static std::shared_ptr<Session> open() {
        SessionOptions options;
        options.device_budget_bytes = 64_MiB;
        options.nvme = (std::filesystem::path(SPILLWAY_BINARY_DIR) / "scratch").string();
        std::filesystem::create_directories(options.nvme);
        return Session::open(options);
    }

    std::shared_ptr<Session> session_ = open();
    torch::Tensor weight_ = torch::ones({512, 512}, torch::requires_grad());
    torch::Tensor mask_ = torch::full({512, 512}, 2.0);
};

TEST_F(ReplacedData, is_seen_by_backward_after_the_tensor_was_let_go) {
    torch::Tensor out;
    {
        Recording const recording(*session_);
        out = (weight_ * mask_).sum();
    }
    mask_.set_data(torch::full({512, 512}, 5.0));
    mask_.reset();
    EXPECT_EQ(kept_for_replaced_data(), 1u);
    out.backward();
    EXPECT_TRUE(torch::equal(weight_.grad(), torch::full({512, 512}, 5.0)));
    EXPECT_EQ(kept_for_replaced_data(), 0u);
}

TEST_F(ReplacedData, goes_with_the_last_graph_that_saved_the_tensor) {
    torch::Tensor one, other;
    {
        Recording const recording(*session_);
        one = weight_ * mask_;
        other = weight_.sin() * mask_;
    }
    mask_.set_data(torch::zeros({512, 512}));
    mask_.reset();
    one.reset();
    EXPECT_EQ(kept_for_replaced_data(), 1u);
    other.reset();
    EXPECT_EQ(kept_for_replaced_data(), 0u);
}

TEST_F(ReplacedData, of_a_node_s_own_output_closes_no_cycle) {
    torch::Tensor out;
    {
        Recording const recording(*session_);
        out = weight_.exp();
    }
    out.set_data(torch::zeros({512, 512}));
    EXPECT_EQ(kept_for_replaced_data(), 0u);
}

TEST_F(ReplacedData, of_a_tensor_that_no_graph_saved_is_not_kept) {
    mask_.set_data(torch::zeros({512, 512}));
    EXPECT_EQ(kept_for_replaced_data(), 0u);
}

}  // namespace
}  // namespace spillway
