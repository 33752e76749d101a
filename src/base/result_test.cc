// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>

namespace spillway {
namespace {

TEST(ResultTest, holds_a_value_or_an_error) {
    Result<int> const good = 5;
    ASSERT_TRUE(good.ok());
    EXPECT_TRUE(static_cast<bool>(good));
    EXPECT_EQ(*good, 5);
    Result<int> const bad = Error{Errc::io, "it broke", "here"};
    ASSERT_FALSE(bad.ok());
    EXPECT_EQ(bad.error(), (Error{Errc::io, "it broke", "here"}));
}

TEST(ResultTest, hands_out_what_can_only_be_moved) {
    Result<std::unique_ptr<int>> made = std::make_unique<int>(7);
    std::unique_ptr<int> const taken = std::move(made).value();
    EXPECT_EQ(*taken, 7);
}

TEST(ResultTest, of_nothing_is_success_unless_told_otherwise) {
    Result<void> const good;
    EXPECT_TRUE(good.ok());
    Result<void> const bad = Error{Errc::cancelled, "given up", ""};
    EXPECT_FALSE(bad.ok());
    EXPECT_EQ(bad.error().code, Errc::cancelled);
}

TEST(ResultTest, a_message_says_where_and_what_in_one_line) {
    EXPECT_EQ((Error{Errc::io, "it broke", "here"}.message()), "here: it broke");
    EXPECT_EQ((Error{Errc::io, "it broke", ""}.message()), "it broke");
}

TEST(ResultTest, every_code_has_its_name) {
    EXPECT_EQ(name_of(Errc::bad_argument), "bad_argument");
    EXPECT_EQ(name_of(Errc::corrupt), "corrupt");
    EXPECT_EQ(name_of(Errc::broken_promise), "broken_promise");
    for (int code = 0; code <= static_cast<int>(Errc::broken_promise); ++code) {
        EXPECT_NE(name_of(static_cast<Errc>(code)), "unknown");
    }
    EXPECT_EQ(name_of(static_cast<Errc>(200)), "unknown");
}

TEST(ResultDeathTest, the_value_of_a_failure_aborts) {
    Result<int> const bad = Error{Errc::io, "it broke", ""};
    EXPECT_DEATH(static_cast<void>(bad.value()), "value\\(\\) of a failed Result");
    Result<int> const good = 1;
    EXPECT_DEATH(static_cast<void>(good.error()), "error\\(\\) of a successful Result");
    EXPECT_DEATH(static_cast<void>(Result<void>().error()), "error\\(\\) of a successful");
}

TEST(AssertDeathTest, a_broken_invariant_names_file_reason_and_condition) {
    EXPECT_DEATH(SPILLWAY_ASSERT(1 + 1 == 3, "sums hold"), "result_test.cc:.*sums hold .1 \\+ 1");
}

}  // namespace
}  // namespace spillway
