// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/making_again.h"

#include "base/units.h"
#include "spillway/option.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

constexpr Places kDrive{.nvme = true};

MakingAgain making(std::string policy, Places const& places, std::string recompute = "auto") {
    SessionOptions options{.device_budget_bytes = 1_MiB};
    options.policy = std::move(policy);
    options.recompute = std::move(recompute);
    return making_again(options, places, false);
}

TEST(MakingAgainTest, by_default_where_the_policy_says_so_or_nothing_can_move) {
    EXPECT_EQ(making("online", kDrive), MakingAgain::nothing);
    EXPECT_EQ(making("online", {}), MakingAgain::blocks);
    EXPECT_EQ(making("te", kDrive), MakingAgain::nothing);
    EXPECT_EQ(making("te", {}), MakingAgain::blocks) << "it makes no plan";
    EXPECT_EQ(making("rotor", {}), MakingAgain::blocks);
    EXPECT_EQ(making("auto", kDrive), MakingAgain::blocks);
    EXPECT_EQ(making("delta", kDrive), MakingAgain::blocks);
    EXPECT_EQ(making("keep_all", {}), MakingAgain::nothing);
    SessionOptions const given{.device_budget_bytes = 1_MiB};
    EXPECT_EQ(making_again(given, kDrive, true), MakingAgain::blocks);
}

TEST(MakingAgainTest, off_forbids_it_for_any_policy) {
    for (char const* const policy : {"online", "auto", "rotor", "delta", "str"}) {
        EXPECT_EQ(making(policy, {}, "off"), MakingAgain::nothing) << policy;
    }
    SessionOptions given{.device_budget_bytes = 1_MiB};
    given.recompute = "off";
    EXPECT_EQ(making_again(given, {}, true), MakingAgain::nothing);
}

TEST(MakingAgainTest, on_asks_for_it_everywhere_but_without_a_budget) {
    EXPECT_EQ(making("online", kDrive, "on"), MakingAgain::cheap);
    EXPECT_EQ(making("te", kDrive, "on"), MakingAgain::cheap);
    EXPECT_EQ(making("keep_all", kDrive, "on"), MakingAgain::nothing);
    EXPECT_EQ(making_again({.recompute = "on"}, {}, false), MakingAgain::nothing);
}

TEST(MakingAgainTest, a_policy_that_does_nothing_else_is_refused_where_it_is_off) {
    SessionOptions options{.device_budget_bytes = 1_MiB, .policy = "rotor", .recompute = "off"};
    std::optional<OptionFault> const wrong = check_options(options);
    ASSERT_TRUE(wrong);
    EXPECT_EQ(wrong->code, OptionCode::makes_again);
    EXPECT_EQ(
        words_of(*wrong, Face::python),
        "'rotor' works by making saved tensors again, and recompute= is 'off'; leave one of the "
        "two "
        "out"
    );
    options.policy = "capuchin";  // it moves, too
    EXPECT_EQ(check_options(options), std::nullopt);
    options.policy = "keep_all";
    EXPECT_EQ(check_options(options), std::nullopt);
}

}  // namespace
}  // namespace spillway
