// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/states/living_gradients.h"

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(LivingGradients, counts_what_parameters_have_now) {
    at::Tensor weight = at::ones({4, 8}).requires_grad_();
    at::Tensor bias = at::ones({8}).requires_grad_();
    at::Tensor const buffer = at::ones({8});
    LivingGradients gradients{c10::Device(c10::kCPU)};
    gradients.add({weight, buffer, at::Tensor()});
    gradients.add({bias});
    EXPECT_EQ(gradients.bytes(), 0);
    weight.mutable_grad() = at::ones({4, 8});
    EXPECT_EQ(gradients.bytes(), 128);
    bias.mutable_grad() = at::ones({8});
    EXPECT_EQ(gradients.bytes(), 160);
    weight.mutable_grad().reset();
    EXPECT_EQ(gradients.bytes(), 32);
    EXPECT_EQ(gradients.bytes({bias.grad().storage().unsafeGetStorageImpl()}), 0);
    bias.reset();
    EXPECT_EQ(gradients.bytes(), 0) << "it has gone";
    gradients.clear();
    EXPECT_EQ(weight.getIntrusivePtr().weak_use_count(), 1u) << "nothing refers to it";
}

TEST(LivingGradients, a_storage_of_several_gradients_counts_once) {
    at::Tensor const flat = at::ones({16});
    at::Tensor one = at::ones({8}).requires_grad_();
    at::Tensor other = at::ones({8}).requires_grad_();
    LivingGradients gradients{c10::Device(c10::kCPU)};
    gradients.add({one, other});
    one.mutable_grad() = flat.slice(0, 0, 8);
    other.mutable_grad() = flat.slice(0, 8, 16);
    EXPECT_EQ(gradients.bytes(), 64);
}

}  // namespace
}  // namespace spillway
