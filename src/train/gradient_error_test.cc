// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/gradient_error.h"

#include <gtest/gtest.h>

#include <cmath>

namespace spillway::train {
namespace {

TEST(gradient_error, is_relative_for_each_and_for_all) {
    std::vector<Gradient> const exact{{"a", {3, 4}}, {"b", {0, 12}}, {"c", {0, 0}}};
    std::vector<Gradient> const off{{"a", {3, 3}}, {"b", {5, 12}}, {"c", {0, 0}}};
    GradientErrors const errors = gradient_errors(off, exact);
    ASSERT_EQ(errors.parameters.size(), 3U);
    EXPECT_DOUBLE_EQ(errors.parameters[0].error, 1.0 / 5);
    EXPECT_DOUBLE_EQ(errors.parameters[1].error, 5.0 / 12);
    EXPECT_EQ(errors.parameters[2].error, 0);
    EXPECT_DOUBLE_EQ(errors.all, std::sqrt(26.0) / 13);
}

TEST(gradient_error, of_nothing_exact_is_infinite) {
    EXPECT_TRUE(std::isinf(gradient_errors({{"a", {1}}}, {{"a", {0}}}).all));
}

TEST(gradient_error, the_worst_are_shown_first) {
    GradientErrors errors;
    for (int i = 0; i < 20; ++i) {
        errors.parameters.push_back({"p" + std::to_string(i), 0.01 * i});
    }
    errors.all = 0.125;
    std::string const text = to_text(errors);
    EXPECT_LT(text.find("0.125  of all"), text.find("0.19  p19"));
    EXPECT_LT(text.find("p19"), text.find("p18"));
    EXPECT_EQ(text.find("p11\n"), std::string::npos);
}

}  // namespace
}  // namespace spillway::train
