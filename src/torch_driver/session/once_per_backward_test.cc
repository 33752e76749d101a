// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/once_per_backward.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

namespace spillway {
namespace {

/// A backward of three nodes, each of which asks.
void run_backward(OncePerBackward& once, int& firsts, int& news) {
    at::Tensor x = at::ones({2}).requires_grad_();
    for (int i = 0; i < 3; ++i) {
        x = x.sin();
        x.register_hook([&](at::Tensor const&) {
            news += once.is_new() ? 1 : 0;
            firsts += once.first() ? 1 : 0;
        });
    }
    torch::autograd::backward({x.sum()}, {});
}

TEST(OncePerBackwardTest, one_node_of_each_backward_is_the_first) {
    OncePerBackward once;
    int firsts = 0;
    int news = 0;
    run_backward(once, firsts, news);
    EXPECT_EQ(firsts, 1);
    EXPECT_EQ(news, 1);
    run_backward(once, firsts, news);
    EXPECT_EQ(firsts, 2);
}

TEST(OncePerBackwardTest, outside_of_a_backward_nothing_is_first) {
    OncePerBackward once;
    EXPECT_FALSE(once.is_new());
    EXPECT_FALSE(once.first());
}

}  // namespace
}  // namespace spillway
