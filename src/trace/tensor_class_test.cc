// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/tensor_class.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace spillway {
namespace {

TensorClass class_at(std::size_t index) {
    return static_cast<TensorClass>(index);
}

TEST(TensorClassTest, every_class_has_a_name_of_its_own_that_parses_back) {
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < kTensorClasses; ++i) {
        std::string_view const name = name_of(class_at(i));
        EXPECT_TRUE(names.insert(name).second) << name;
        Result<TensorClass> const parsed = parse_tensor_class(name);
        ASSERT_TRUE(parsed.ok()) << name;
        EXPECT_EQ(*parsed, class_at(i));
    }
    EXPECT_EQ(name_of(TensorClass::linear_input), "linear_input");
    EXPECT_EQ(name_of(TensorClass::other), "other");
}

TEST(TensorClassTest, a_name_that_is_none_is_refused_and_those_that_are_one_are_said) {
    for (char const* const name : {"", "linear", "linear_input ", "Mask"}) {
        Result<TensorClass> const parsed = parse_tensor_class(name);
        ASSERT_FALSE(parsed.ok()) << name;
        EXPECT_EQ(parsed.error().code, Errc::bad_argument);
        EXPECT_NE(parsed.error().what.find("'" + std::string(name) + "'"), std::string::npos);
        EXPECT_NE(parsed.error().what.find("norm_input"), std::string::npos);
    }
}

TEST(TensorClassTest, two_savers_leave_what_both_allow) {
    for (std::size_t i = 0; i < kTensorClasses; ++i) {
        for (std::size_t j = 0; j < kTensorClasses; ++j) {
            TensorClass const met = both(class_at(i), class_at(j));
            EXPECT_EQ(met, i == j ? class_at(i) : TensorClass::other);
        }
    }
}

TEST(SaverClasses, are_told_one_by_one_where_they_differ) {
    SaverClasses classes;
    EXPECT_EQ(classes.all(), TensorClass::other);
    for (int again = 0; again < 2; ++again) {
        classes.add(TensorClass::relu_output);
        EXPECT_EQ(classes.all(), TensorClass::relu_output);
        EXPECT_TRUE(classes.differing().empty());
    }
    classes.add(TensorClass::convolution_input);
    classes.add(TensorClass::relu_output);
    EXPECT_EQ(classes.all(), TensorClass::other);
    EXPECT_EQ(
        classes.differing(), (std::vector{TensorClass::relu_output, TensorClass::convolution_input})
    );
}

}  // namespace
}  // namespace spillway
