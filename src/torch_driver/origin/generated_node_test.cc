// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/generated_node.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

namespace spillway {
namespace {

std::optional<std::string_view> node_of(at::Tensor const& tensor) {
    torch::autograd::Node const& node = *tensor.grad_fn();
    return generated_node(typeid(node));
}

struct Doubled : torch::autograd::Function<Doubled> {
    static at::Tensor forward(torch::autograd::AutogradContext*, at::Tensor const& x) {
        return x * 2;
    }
    static torch::autograd::tensor_list backward(
        torch::autograd::AutogradContext*, torch::autograd::tensor_list const& gradients
    ) {
        return {gradients[0] * 2};
    }
};

TEST(GeneratedNode, of_torch_has_its_name) {
    at::Tensor const x = at::ones({2, 2}).requires_grad_();
    EXPECT_EQ(node_of(x.view({4})), "ViewBackward0");
    EXPECT_EQ(node_of(x.mul(x)), "MulBackward0");
    EXPECT_EQ(node_of(x.split_with_sizes({1, 1})[0]), "SplitWithSizesBackward0");
}

TEST(GeneratedNode, of_another_has_none) {
    at::Tensor const x = at::ones({2, 2}).requires_grad_();
    EXPECT_EQ(node_of(Doubled::apply(x)), std::nullopt);
    EXPECT_EQ(generated_node(typeid(torch::autograd::AccumulateGrad)), std::nullopt);
    EXPECT_EQ(generated_node(typeid(int)), std::nullopt);
}

}  // namespace
}  // namespace spillway
