// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One hook without a node: what it gives back, and when it refuses to.

#include "torch_driver/autograd/saved_hook.h"

#include "base/units.h"
#include "tier/memory_tier.h"
#include "torch_driver/session/entered.h"
#include "torch_driver/session/open_session.h"
#include "torch_driver/session/torch_session.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>

namespace spillway {
namespace {

struct SavedHookTest : testing::Test {
    static std::shared_ptr<TorchSession> open() {
        SessionOptions options;
        options.device_budget_bytes = 16_MiB;
        return open_session_on(
            options, open_session_device(options), nullptr, std::make_unique<MemoryTier>(4_MiB)
        );
    }

    /// What autograd raises for `hook` now; empty: it gives a tensor back.
    static std::string error_of(SavedHook& hook) {
        try {
            hook.call_unpack_hook();
        } catch (c10::Error const& error) {
            return error.what_without_backtrace();
        }
        return "";
    }

    /// Of a tensor that the node which saves did not make.
    torch::Tensor packed() {
        torch::Tensor product = leaf * 3;
        torch::Tensor const next = product.exp();
        hook.call_pack_hook(product);
        return product;
    }

    std::shared_ptr<TorchSession> session = open();
    SavedHook hook{session};
    torch::Tensor leaf = torch::ones({8, 8}, torch::requires_grad());
};

TEST_F(SavedHookTest, a_leaf_that_wants_no_gradient_comes_back_itself) {
    torch::Tensor const mask = torch::ones({8, 8});
    hook.call_pack_hook(mask);
    EXPECT_FALSE(hook.is_wrapped());
    EXPECT_TRUE(hook.call_unpack_hook().is_same(mask));
}

TEST_F(SavedHookTest, the_bytes_of_an_intermediate_come_back_after_it_has_gone) {
    torch::Tensor product = packed();
    product.reset();
    EXPECT_TRUE(hook.is_wrapped());
    EXPECT_TRUE(torch::equal(hook.call_unpack_hook(), torch::full({8, 8}, 3.0)));
}

TEST_F(SavedHookTest, a_write_in_place_since_is_refused_in_torchs_words) {
    torch::Tensor product = packed();
    product.detach().add_(1);
    EXPECT_NE(error_of(hook).find("modified by an inplace operation"), std::string::npos);
}

TEST_F(SavedHookTest, a_tensor_that_was_detached_in_place_is_refused) {
    torch::Tensor product = packed();
    product.detach_();
    EXPECT_NE(error_of(hook).find("detached in-place"), std::string::npos);
}

TEST_F(SavedHookTest, other_data_that_a_leaf_was_given_since_are_what_comes_back) {
    hook.call_pack_hook(leaf);
    leaf.set_data(torch::zeros({2}));
    EXPECT_EQ(hook.call_unpack_hook().numel(), 2);
}

TEST_F(SavedHookTest, keeps_its_session) {
    std::weak_ptr<TorchSession> const weak = session;
    session.reset();
    EXPECT_FALSE(weak.expired());
}

TEST_F(SavedHookTest, keeps_a_leaf_that_stays_itself_as_plain_autograd_does) {
    hook.call_pack_hook(leaf);
    EXPECT_EQ(leaf.use_count(), 2U);
}

TEST_F(SavedHookTest, keeps_no_tensor_with_a_graph_itself) {
    torch::Tensor const product = packed();
    EXPECT_EQ(product.use_count(), 1U);
}

TEST_F(SavedHookTest, keeps_no_tensor_with_a_graph_of_what_may_leave) {
    Entered const entered(session);
    leaf = torch::ones({256, 256}, torch::requires_grad());
    torch::Tensor const product = packed();
    EXPECT_TRUE(hook.value().valid());
    EXPECT_EQ(product.use_count(), 1U);
}

TEST_F(SavedHookTest, keeps_no_output_of_the_node_that_saves_it_itself) {
    torch::Tensor const product = leaf * 3;
    hook.call_pack_hook(product);
    EXPECT_EQ(product.use_count(), 1U) << "it would be a cycle";
}

}  // namespace
}  // namespace spillway
