// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/steal_guard.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <utility>

namespace spillway {
namespace {

/// What a test does in a backward: it is given the gradient, and returns the one to pass on.
std::function<torch::Tensor(torch::Tensor const&)>& in_backward() {
    static std::function<torch::Tensor(torch::Tensor const&)> set;
    return set;
}

struct RunsInBackward : torch::autograd::Function<RunsInBackward> {
    static torch::Tensor forward(torch::autograd::AutogradContext*, torch::Tensor const& input) {
        return input.clone();
    }
    static torch::autograd::variable_list backward(
        torch::autograd::AutogradContext*, torch::autograd::variable_list gradients
    ) {
        return {in_backward()(gradients[0])};
    }
};

struct StealGuardTest : testing::Test {
    /// The gradient of a leaf after a backward in which `set` ran.
    torch::Tensor gradient(std::function<torch::Tensor(torch::Tensor const&)> set) {
        in_backward() = std::move(set);
        torch::Tensor leaf = torch::ones({4}, torch::requires_grad());
        RunsInBackward::apply(leaf).sum().backward();
        in_backward() = nullptr;
        return leaf.grad();
    }

    torch::Tensor saved = torch::full({4}, 3.0);
};

TEST_F(StealGuardTest, outside_a_backward_nothing_is_kept) {
    guard_from_stealing(saved);
    EXPECT_EQ(guards_from_stealing(), 0U);
    EXPECT_EQ(saved.use_count(), 1U);
}

TEST_F(StealGuardTest, a_guarded_tensor_is_copied_where_another_would_be_taken_over) {
    auto const returns_an_alias = [this](bool is_guarded) {
        return gradient([&](torch::Tensor const&) {
            torch::Tensor alias = saved.detach();
            if (is_guarded) {
                guard_from_stealing(alias);
            }
            return alias;
        });
    };
    EXPECT_EQ(returns_an_alias(false).data_ptr(), saved.data_ptr()) << "torch takes it over";
    torch::Tensor const copied = returns_an_alias(true);
    EXPECT_NE(copied.data_ptr(), saved.data_ptr());
    EXPECT_TRUE(torch::equal(copied, saved));
    EXPECT_EQ(guards_from_stealing(), 0U) << "it ended with the backward";
}

TEST_F(StealGuardTest, ends_as_soon_as_nobody_else_has_the_tensor) {
    gradient([](torch::Tensor const& incoming) {
        torch::Tensor mine = torch::ones({4});
        guard_from_stealing(mine);
        guard_from_stealing(mine);  // once is enough
        EXPECT_EQ(mine.use_count(), 2U);
        end_idle_guards(true);
        EXPECT_EQ(guards_from_stealing(), 1U);
        mine.reset();
        end_idle_guards(true);
        EXPECT_EQ(guards_from_stealing(), 0U);
        return incoming;
    });
}

TEST_F(StealGuardTest, of_an_inner_backward_lasts_as_long_as_the_outer_one) {
    torch::Tensor kept;
    gradient([&](torch::Tensor const& incoming) {
        {
            torch::AutoGradMode const enabled(true);
            torch::Tensor inner = torch::ones({4}, torch::requires_grad());
            inner.register_hook([&](torch::Tensor const&) {
                kept = torch::ones({4});
                guard_from_stealing(kept);
            });
            (inner * 2).sum().backward();
        }
        EXPECT_EQ(guards_from_stealing(), 1U);
        return incoming;
    });
    EXPECT_EQ(guards_from_stealing(), 0U);
    EXPECT_EQ(kept.use_count(), 1U);
}

TEST_F(StealGuardTest, torchs_own_variable_is_guarded_where_it_makes_one) {
    gradient([this](torch::Tensor const& incoming) {
        torch::Tensor const given = guarded_when_wrapped(saved);
        torch::Tensor const variable(given.unsafeGetTensorImpl()->shallow_copy_and_detach(
            saved.unsafeGetTensorImpl()->version_counter(), false
        ));
        EXPECT_EQ(variable.data_ptr(), saved.data_ptr());
        EXPECT_EQ(variable.use_count(), 2U);
        return incoming;
    });
    EXPECT_EQ(guards_from_stealing(), 0U);
}

}  // namespace
}  // namespace spillway
