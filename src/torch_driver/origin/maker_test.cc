// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/maker.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <tuple>

namespace spillway {
namespace {

at::Tensor weight() {
    return at::rand({4, 4}).requires_grad_();
}

TEST(MakerTest, it_is_the_operator_with_its_output) {
    auto const [deviation, mean] = at::std_mean(weight());
    EXPECT_EQ(maker_of(deviation).origin.name(), "StdMeanBackward0");
    EXPECT_EQ(maker_of(deviation).origin.output, 0U);
    EXPECT_EQ(maker_of(mean).origin.output, 1U);
    EXPECT_EQ(maker_of(mean).origin.number, maker_of(deviation).origin.number);
}

TEST(MakerTest, outside_the_graph_nothing_made_a_tensor) {
    for (at::Tensor const& tensor : {at::rand({4}), weight(), weight().sin().detach()}) {
        Maker const maker = maker_of(tensor);
        EXPECT_EQ(maker.origin.node, nullptr);
        EXPECT_EQ(maker.leaf, nullptr);
        EXPECT_FALSE(maker.is_cast);
    }
}

TEST(MakerTest, views_and_copies_are_looked_through) {
    at::Tensor const sine = weight().sin();
    for (at::Tensor const& tensor :
         {sine.view({16}), sine.t().unsqueeze(0), sine.split(2)[1], sine.t().clone()[0]}) {
        Maker const maker = maker_of(tensor);
        EXPECT_EQ(maker.origin.name(), "SinBackward0");
        EXPECT_EQ(maker.origin.number, maker_of(sine).origin.number);
        EXPECT_FALSE(maker.is_cast);
    }
}

TEST(MakerTest, a_cast_is_looked_through_and_is_known) {
    Maker const maker = maker_of(weight().sin().t().to(at::kDouble).unsqueeze(0));
    EXPECT_EQ(maker.origin.name(), "SinBackward0");
    EXPECT_TRUE(maker.is_cast);
}

TEST(MakerTest, of_a_leaf_that_is_viewed_or_cast_it_is_the_storage) {
    at::Tensor const leaf = weight();
    Maker const viewed = maker_of(leaf.t());
    EXPECT_EQ(viewed.leaf, leaf.storage().unsafeGetStorageImpl());
    EXPECT_EQ(viewed.origin.node, nullptr);
    EXPECT_FALSE(viewed.is_cast);
    Maker const cast = maker_of(leaf.to(at::kBFloat16).t());
    EXPECT_EQ(cast.leaf, leaf.storage().unsafeGetStorageImpl());
    EXPECT_TRUE(cast.is_cast);
}

TEST(MakerTest, a_long_chain_of_views_is_not_walked_to_its_end) {
    at::Tensor tensor = weight().sin();
    for (int view = 0; view < 8; ++view) {
        tensor = tensor.t();
    }
    EXPECT_EQ(maker_of(tensor).origin.name(), "SinBackward0");
    EXPECT_EQ(maker_of(tensor.t()).origin.name(), "TBackward0");
}

}  // namespace
}  // namespace spillway
