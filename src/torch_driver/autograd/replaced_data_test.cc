// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Data that a saved tensor was given later live as long as a hook may ask for them, and no longer.

#include "torch_driver/autograd/replaced_data.h"

#include "base/units.h"
#include "spillway/session.h"
#include "test_paths.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <filesystem>
#include <memory>

namespace spillway {
namespace {

class ReplacedData : public testing::Test {
  protected:
    static std::shared_ptr<Session> open() {
        SessionOptions options;
        options.device_budget_bytes = 64_MiB;
        options.nvme = (std::filesystem::path(build_folder()) / "scratch").string();
        std::filesystem::create_directories(options.nvme);
        return Session::open(options);
    }

    /// Gives `tensor` other data, and lets go of it. The data, for as long as something keeps them.
    static c10::weak_intrusive_ptr<c10::StorageImpl> replace(torch::Tensor& tensor, double by) {
        torch::Tensor const data = torch::full_like(tensor, by, torch::requires_grad(false));
        tensor.set_data(data);
        tensor.reset();
        return data.storage().getWeakStorageImpl();
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
    auto const data = replace(mask_, 5.0);
    EXPECT_FALSE(data.expired());
    out.backward();
    EXPECT_TRUE(torch::equal(weight_.grad(), torch::full({512, 512}, 5.0)));
    EXPECT_TRUE(data.expired());
}

TEST_F(ReplacedData, counts_as_it_was_last_for_each_save) {
    torch::Tensor out;
    {
        Recording const recording(*session_);
        out = weight_ * mask_;
        mask_.set_data(torch::full({512, 512}, 3.0));
        out = (out + weight_.sin() * mask_).sum();
    }
    auto const data = replace(mask_, 5.0);
    out.backward();
    torch::Tensor const expected = weight_.detach().cos() * 5.0 + 5.0;
    EXPECT_TRUE(torch::allclose(weight_.grad(), expected));
    EXPECT_TRUE(data.expired());
}

TEST_F(ReplacedData, that_are_the_saved_ones_again_are_no_others) {
    torch::Tensor out;
    torch::Tensor const saved = mask_.detach();
    {
        Recording const recording(*session_);
        out = (weight_ * mask_).sum();
    }
    mask_.set_data(torch::full({512, 512}, 5.0));
    mask_.set_data(saved);
    mask_.reset();
    out.backward();
    EXPECT_TRUE(torch::equal(weight_.grad(), torch::full({512, 512}, 2.0)));
}

TEST_F(ReplacedData, go_with_the_last_graph_that_saved_the_tensor) {
    torch::Tensor one, other;
    {
        Recording const recording(*session_);
        one = weight_ * mask_;
        other = weight_.sin() * mask_;
    }
    auto const data = replace(mask_, 0.0);
    one.reset();
    EXPECT_FALSE(data.expired());
    other.reset();
    EXPECT_TRUE(data.expired());
}

TEST_F(ReplacedData, of_a_small_tensor_are_seen_and_go) {
    torch::Tensor out, small;
    {
        Recording const recording(*session_);
        small = weight_.slice(0, 0, 1).slice(1, 0, 4).exp();
        out = small.sin().sum();
    }
    auto const data = replace(small, 0.0);
    EXPECT_FALSE(data.expired());
    out.backward();
    EXPECT_NEAR(weight_.grad()[0][0].item<double>(), std::exp(1.0), 1e-5);  // cos(0) exp(1)
    EXPECT_TRUE(data.expired());
}

TEST_F(ReplacedData, go_where_something_else_refers_weakly_to_the_tensor) {
    torch::Tensor out;
    torch::Tensor hidden;
    {
        Recording const recording(*session_);
        hidden = weight_.exp();
        hidden.retain_grad();
        out = hidden.sin().sum();
    }
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> const other(
        hidden.getIntrusivePtr()
    );
    auto const data = replace(hidden, 0.0);
    EXPECT_FALSE(data.expired());
    out.reset();
    EXPECT_TRUE(data.expired());
    EXPECT_TRUE(other.expired());
}

TEST_F(ReplacedData, are_nobody_s_after_the_session) {
    session_.reset();
    torch::Tensor const view = mask_.detach();
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> const other(
        mask_.getIntrusivePtr()
    );
    EXPECT_TRUE(replace(mask_, 0.0).expired());
    EXPECT_TRUE(other.expired());
}

TEST_F(ReplacedData, of_a_node_s_own_output_close_no_cycle) {
    torch::Tensor out;
    {
        Recording const recording(*session_);
        out = weight_.exp();
    }
    EXPECT_TRUE(replace(out, 0.0).expired());
}

/// Doubles, and saves its own output, after it recorded a graph of its own.
struct RecordsInForward : torch::autograd::Function<RecordsInForward> {
    static torch::Tensor forward(
        torch::autograd::AutogradContext* context, torch::Tensor const& input
    ) {
        {
            torch::AutoGradMode const enabled(true);
            torch::Tensor const inner = input.detach().requires_grad_();
            (inner * inner).sum().backward();
        }
        torch::Tensor out = input * 2;
        context->save_for_backward({out});
        return out;
    }
    static torch::autograd::variable_list backward(
        torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients
    ) {
        return {gradients[0] * context->get_saved_variables()[0]};
    }
};

TEST_F(ReplacedData, of_the_output_of_a_function_that_records_close_no_cycle) {
    torch::Tensor out;
    {
        Recording const recording(*session_);
        out = RecordsInForward::apply(weight_);
    }
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> const ended(
        out.getIntrusivePtr()
    );
    EXPECT_TRUE(replace(out, 0.0).expired());
    EXPECT_TRUE(ended.expired());
}

TEST_F(ReplacedData, of_the_output_of_a_function_that_records_do_not_count) {
    torch::Tensor out;
    {
        Recording const recording(*session_);
        out = RecordsInForward::apply(weight_);
    }
    out.set_data(torch::zeros({512, 512}));  // plain autograd has saved the bytes
    out.sum().backward();
    EXPECT_TRUE(torch::equal(weight_.grad(), torch::full({512, 512}, 2.0)));
}

}  // namespace
}  // namespace spillway
