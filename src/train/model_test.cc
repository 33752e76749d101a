// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/model.h"

#include "train/test_support.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace spillway::train {
namespace {

ModelShape tiny(Style style) {
    TrainOptions options = tiny_options();
    options.style = std::string{name_of(style)};
    ModelShape shape = shape_of(options);
    shape.kv_heads = style == Style::llama2 ? 1 : shape.kv_heads;
    return shape;
}

class EachStyle : public testing::TestWithParam<Style> {};

TEST_P(EachStyle, has_as_many_parameters_as_its_shape_says) {
    ModelShape const shape = tiny(GetParam());
    std::int64_t count = 0;
    for (auto const& parameter : make_model(shape, 1, at::kCPU)->parameters()) {
        count += parameter.numel();
    }
    EXPECT_EQ(count, parameter_count(shape));
}

TEST_P(EachStyle, weights_depend_on_the_seed_alone) {
    ModelShape const shape = tiny(GetParam());
    auto const first = make_model(shape, 1, at::kCPU)->parameters();
    auto const again = make_model(shape, 1, at::kCPU)->parameters();
    auto const other = make_model(shape, 2, at::kCPU)->parameters();
    for (std::size_t at = 0; at < first.size(); ++at) {
        EXPECT_TRUE(at::equal(first[at], again[at]));
    }
    EXPECT_FALSE(at::equal(first[0], other[0]));
}

TEST_P(EachStyle, a_token_sees_no_later_one) {
    at::NoGradGuard const no_grad;
    ModelShape const shape = tiny(GetParam());
    auto const model = make_model(shape, 3, at::kCPU);
    at::Tensor const ids = at::zeros({1, shape.sequence}, at::kLong);
    at::Tensor const before = model->forward(ids);
    EXPECT_EQ(before.sizes(), (at::IntArrayRef{1, shape.sequence, shape.vocab_size}));
    ids[0][5] = 9;
    at::Tensor const after = model->forward(ids);
    EXPECT_TRUE(at::equal(before.narrow(1, 0, 5), after.narrow(1, 0, 5)));
    EXPECT_FALSE(at::equal(before.narrow(1, 5, 1), after.narrow(1, 5, 1)));
    EXPECT_FALSE(at::equal(before.narrow(1, 7, 1), after.narrow(1, 7, 1)));
}

TEST_P(EachStyle, every_parameter_gets_a_gradient_and_the_first_loss_is_that_of_chance) {
    ModelShape const shape = tiny(GetParam());
    auto const model = make_model(shape, 4, at::kCPU);
    at::Tensor const ids = at::zeros({2, shape.sequence}, at::kLong);
    at::Tensor const loss = loss_of(model->forward(ids), ids + 1);
    loss.backward();
    EXPECT_NEAR(loss.item<double>(), std::log(256.0), 0.5);
    for (auto const& parameter : model->named_parameters()) {
        EXPECT_TRUE(parameter.value().grad().defined()) << parameter.key();
    }
}

INSTANTIATE_TEST_SUITE_P(model, EachStyle, testing::Values(Style::gpt2, Style::llama2));

}  // namespace
}  // namespace spillway::train
