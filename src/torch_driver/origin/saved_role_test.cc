// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/saved_role.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(SavedRole, a_node_is_named_by_its_operator) {
    EXPECT_EQ(operator_of_node("GeluBackward0"), "gelu");
    EXPECT_EQ(operator_of_node("NativeLayerNormBackward0"), "layer_norm");
    EXPECT_EQ(operator_of_node("MeanBackward1"), "mean");
    EXPECT_EQ(operator_of_node("MaxPool2DWithIndicesBackward0"), "max_pool2_d");
    EXPECT_EQ(operator_of_node("AccumulateGrad"), "AccumulateGrad");
    EXPECT_EQ(operator_of_node("PyNode"), "PyNode");
    EXPECT_EQ(operator_of_node("Backward0"), "Backward0");
    EXPECT_EQ(operator_of_node(""), "");
}

TEST(SavedRole, an_operator_is_named_as_it_is_called) {
    EXPECT_EQ(operator_words("aten::linear", "aten::addmm"), "linear");
    EXPECT_EQ(operator_words("aten::mm", "aten::mm"), "mm");
    EXPECT_EQ(operator_words("aten::conv2d", "aten::convolution"), "conv2d");
    EXPECT_EQ(operator_words("aten::layer_norm", "aten::native_layer_norm"), "layer_norm");
    EXPECT_EQ(operator_words("aten::softmax", "aten::_softmax"), "softmax");
    EXPECT_EQ(operator_words("aten::dropout", "aten::mul"), "dropout");
    EXPECT_EQ(
        operator_words(
            "aten::scaled_dot_product_attention",
            "aten::_scaled_dot_product_flash_attention_for_cpu"
        ),
        "scaled_dot_product_attention"
    );
    EXPECT_EQ(
        operator_words("aten::cross_entropy_loss", "aten::_log_softmax"),
        "log_softmax in cross_entropy_loss"
    );
    EXPECT_EQ(operator_words("MyFunction", "MyFunction"), "MyFunction");
    EXPECT_EQ(operator_words("my::sine", "my::sine"), "my::sine");
    EXPECT_EQ(operator_words("", ""), "");
}

TEST(SavedRole, of_a_linear_layer) {
    SavedFacts facts{.outer = "aten::linear", .inner = "aten::addmm"};
    EXPECT_EQ(role_of(facts), "input of linear, saved for its weight's gradient");
    facts.maker = "gelu";
    EXPECT_EQ(role_of(facts), "input of linear (output of gelu), saved for its weight's gradient");
    facts.is_cast = true;
    EXPECT_EQ(
        role_of(facts), "input of linear (cast of output of gelu), saved for its weight's gradient"
    );
    facts.maker.clear();
    facts.owned = "fc.weight";
    EXPECT_EQ(role_of(facts), "cast of fc.weight, saved for the gradient of linear's input");
}

TEST(SavedRole, of_a_product_of_activations) {
    EXPECT_EQ(
        role_of({.outer = "aten::matmul", .inner = "aten::bmm", .maker = "softmax"}),
        "input of matmul (output of softmax), saved for its other operand's gradient"
    );
    EXPECT_EQ(
        role_of({.outer = "aten::mm", .inner = "aten::mm", .has_owned_beside = true}),
        "input of mm, saved for its weight's gradient"
    );
}

TEST(SavedRole, of_an_output_and_what_is_made_beside_it) {
    SavedFacts norm{
        .outer = "aten::layer_norm", .inner = "aten::native_layer_norm", .maker = "add"};
    EXPECT_EQ(role_of(norm), "input of layer_norm (output of add), saved for its backward");
    norm.maker.clear();
    norm.others_before = 1;
    EXPECT_EQ(role_of(norm), "statistics of layer_norm, saved for its backward");
    norm.owned = "norm.weight";
    EXPECT_EQ(role_of(norm), "norm.weight, saved for the backward of layer_norm");
    SavedFacts tanh{.outer = "aten::tanh", .inner = "aten::tanh", .is_output = true};
    EXPECT_EQ(role_of(tanh), "output of tanh, saved for its backward");
    tanh.output = 2;
    EXPECT_EQ(role_of(tanh), "output 2 of tanh, saved for its backward");
}

TEST(SavedRole, of_masks_and_indices) {
    EXPECT_EQ(
        role_of({.outer = "aten::dropout", .inner = "aten::mul"}),
        "mask of dropout, saved for its backward"
    );
    EXPECT_EQ(
        role_of(
            {.outer = "aten::where", .inner = "aten::where", .elements = SavedElements::booleans}
        ),
        "mask of where, saved for its backward"
    );
    EXPECT_EQ(
        role_of(
            {.outer = "aten::embedding",
             .inner = "aten::embedding",
             .elements = SavedElements::integers}
        ),
        "indices of embedding, saved for its backward"
    );
}

TEST(SavedRole, of_what_is_not_known) {
    EXPECT_EQ(role_of({}), "made outside the graph, saved for backward");
    EXPECT_EQ(role_of({.maker = "gelu"}), "output of gelu, saved for backward");
    EXPECT_EQ(
        role_of({.outer = "MyFunction", .inner = "MyFunction"}),
        "tensor of MyFunction, saved for its backward"
    );
    EXPECT_EQ(
        role_of({.outer = "MyFunction", .inner = "MyFunction", .maker = "add"}),
        "input of MyFunction (output of add), saved for its backward"
    );
}

}  // namespace
}  // namespace spillway
