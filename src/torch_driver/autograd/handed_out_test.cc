// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/handed_out.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>

namespace spillway {
namespace {

struct HandedOutTest : testing::Test {
    [[nodiscard]] torch::Tensor make() const { return out->make(saved, false); }
    [[nodiscard]] torch::Tensor again() const { return out->again(false); }

    torch::Tensor saved = torch::ones({4, 4});
    std::shared_ptr<HandedOut> out =
        std::make_shared<HandedOut>(HandedOut::WeakTensor(saved.getIntrusivePtr()));
};

TEST_F(HandedOutTest, an_alias_is_another_tensor_of_the_same_bytes_and_version) {
    torch::Tensor const view = saved.t().slice(0, 1, 3);
    torch::Tensor alias = alias_of(view);
    EXPECT_FALSE(alias.is_same(view));
    EXPECT_EQ(alias.data_ptr(), view.data_ptr());
    EXPECT_EQ(alias.strides(), view.strides());
    std::int64_t const before = saved._version();
    alias.add_(1);
    EXPECT_GT(saved._version(), before);
    torch::InferenceMode const inference;
    EXPECT_FALSE(alias_of(view).is_inference());
}

TEST_F(HandedOutTest, one_that_lives_is_handed_out_again) {
    torch::Tensor const first = make();
    EXPECT_TRUE(again().is_same(first));
    EXPECT_EQ(made_by(first), out);
    EXPECT_EQ(made_by(saved), nullptr);
}

TEST_F(HandedOutTest, one_that_went_as_it_was_leaves_nothing) {
    make().fill_(2);
    EXPECT_FALSE(again().defined());
    make().add_(1);  // other bytes, in the same place
    EXPECT_FALSE(again().defined());
}

TEST_F(HandedOutTest, what_its_user_made_of_it_is_there_again) {
    make().set_data(torch::zeros({2}));
    EXPECT_TRUE(torch::equal(again(), torch::zeros({2})));
    make().unsafeGetTensorImpl()->set_sizes_and_strides(
        c10::IntArrayRef{2, 8}, c10::IntArrayRef{8, 1}
    );
    EXPECT_EQ(again().sizes(), (std::vector<std::int64_t>{2, 8}));
    make().unsafeGetTensorImpl()->_set_neg(true);
    EXPECT_TRUE(again().is_neg());
}

TEST_F(HandedOutTest, what_the_saved_tensor_was_given_counts_from_then_on) {
    torch::Tensor const lives = make();
    make().set_data(torch::zeros({2}));
    torch::Tensor const given = torch::full({3}, 5.0);
    int calls = 0;
    out->follow([&](torch::Tensor const& made) {
        ++calls;
        EXPECT_TRUE(made.is_same(lives));
        const_cast<torch::Tensor&>(made).set_data(given);
    });
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(lives.data_ptr(), given.data_ptr());
    EXPECT_FALSE(again().defined()) << "what became of the one that went counts no more";
}

TEST_F(HandedOutTest, knows_the_saved_tensor_by_its_address_after_it_has_gone) {
    c10::TensorImpl const* const address = saved.unsafeGetTensorImpl();
    EXPECT_TRUE(out->living().is_same(saved));
    saved.reset();
    EXPECT_FALSE(out->living().defined());
    EXPECT_EQ(out->saved(), address);
}

TEST_F(HandedOutTest, torchs_own_variable_is_watched_where_it_makes_one) {
    torch::Tensor const given = out->make(saved, true);
    EXPECT_EQ(made_by(given), nullptr);
    torch::Tensor const variable(given.unsafeGetTensorImpl()->shallow_copy_and_detach(
        saved.unsafeGetTensorImpl()->version_counter(), false
    ));
    EXPECT_EQ(made_by(variable), out);
    EXPECT_TRUE(again().is_same(variable));
}

}  // namespace
}  // namespace spillway
