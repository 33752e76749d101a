// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/saves.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace spillway {
namespace {

using Words = std::vector<std::string>;

struct GeluBackward0 {};
struct AddmmBackward0 {};

std::string const kLinear = "aten::linear";
std::string const kAddmm = "aten::addmm";
std::string const kGelu = "aten::gelu";

/// What `node` saved; `name`: the parameter that it is, empty: it is none.
Save saved_by(std::uint64_t node, std::string const& name = "") {
    Save save;
    save.node = node;
    save.name = name.empty() ? nullptr : std::make_shared<std::string const>(name);
    return save;
}

TEST(SavesTest, a_node_is_in_the_module_of_the_parameter_that_it_saved) {
    EXPECT_EQ(
        places_of({
            saved_by(1),
            saved_by(1, "blocks.0.up.weight"),
            saved_by(2, "blocks.1.up.weight"),
            saved_by(2),
        }),
        (Words{"blocks.0.up", "blocks.0.up", "blocks.1.up", "blocks.1.up"})
    );
}

TEST(SavesTest, a_node_without_a_parameter_is_where_those_around_it_both_are) {
    auto const between = [](char const* before, char const* after) {
        return places_of({saved_by(1, before), saved_by(2), saved_by(3, after)})[1];
    };
    EXPECT_EQ(between("blocks.0.up.weight", "blocks.0.down.weight"), "blocks.0");
    EXPECT_EQ(between("blocks.0.up.weight", "blocks.0.up.bias"), "blocks.0.up");
    EXPECT_EQ(between("blocks.0.weight", "blocks.0.up.weight"), "blocks.0");
    EXPECT_EQ(between("blocks.0.up.weight", "blocks.0.weight"), "blocks.0");
    EXPECT_EQ(between("blocks.up.weight", "blocks.upper.weight"), "blocks");
    EXPECT_EQ(between("up.weight", "down.weight"), "");
    EXPECT_EQ(between("weight", "down.weight"), "");
}

TEST(SavesTest, between_two_layers_it_is_of_the_first) {
    auto const between = [](char const* before, char const* after) {
        return places_of({saved_by(1, before), saved_by(2), saved_by(3, after)})[1];
    };
    EXPECT_EQ(between("0.weight", "2.weight"), "0") << "Sequential(Linear, ReLU, Linear)";
    EXPECT_EQ(between("blocks.1.weight", "blocks.10.weight"), "blocks.1");
    EXPECT_EQ(between("blocks.1.mlp.down.weight", "blocks.2.norm.weight"), "blocks");
    EXPECT_EQ(between("0.weight", "head.weight"), "");
    EXPECT_EQ(between("blocks.1.weight", "blocks.norm.weight"), "blocks");
}

TEST(SavesTest, before_the_first_parameter_and_after_the_last_it_is_that_ones_module) {
    EXPECT_EQ(
        places_of(
            {saved_by(1),
             saved_by(2, "embed.weight"),
             saved_by(3),
             saved_by(4, ""),
             saved_by(5, "head.weight"),
             saved_by(6)}
        ),
        (Words{"embed", "embed", "", "", "head", "head"})
    );
}

TEST(SavesTest, without_any_parameter_it_is_the_whole_model) {
    EXPECT_EQ(places_of({saved_by(1), saved_by(2)}), (Words{"", ""}));
    EXPECT_EQ(places_of({}), Words{});
}

TEST(SavesTest, what_another_node_made_is_named_as_the_model_called_that) {
    Save gelu = saved_by(1);
    gelu.inner = &kGelu;
    Save linear = saved_by(2);
    linear.maker = {&typeid(GeluBackward0), 0, 1};
    linear.outer = &kLinear;
    linear.inner = &kAddmm;
    Save next = saved_by(3);
    next.maker = {&typeid(AddmmBackward0), 0, 2};
    next.inner = &kGelu;
    EXPECT_EQ(
        roles_of({gelu, linear, next}),
        (Words{
            "input of gelu, saved for its backward",
            "input of linear (output of gelu), saved for its weight's gradient",
            "input of gelu (output of linear), saved for its backward"})
    );
}

TEST(SavesTest, a_maker_that_saved_nothing_is_named_by_its_node) {
    Save gelu = saved_by(2);
    gelu.maker = {&typeid(AddmmBackward0), 0, 1};
    gelu.inner = &kGelu;
    EXPECT_EQ(roles_of({gelu}), Words{"input of gelu (output of addmm), saved for its backward"});
}

TEST(SavesTest, what_a_node_saved_beside_it_says_what_a_tensor_is) {
    static std::string const mm = "aten::mm";
    Save input = saved_by(1);
    input.inner = &mm;
    Save weight = saved_by(1, "up.weight");
    weight.inner = &mm;
    EXPECT_EQ(
        roles_of({input, weight}),
        (Words{
            "input of mm, saved for its weight's gradient",
            "up.weight, saved for the gradient of mm's input"})
    );
    EXPECT_EQ(roles_of({input}), Words{"input of mm, saved for its other operand's gradient"});
}

}  // namespace
}  // namespace spillway
