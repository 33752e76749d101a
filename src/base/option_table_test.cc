// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/option_table.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <tuple>

namespace spillway {
namespace {

TEST(OptionTable, every_member_but_the_face_and_the_place_is_declared) {
    auto const& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, face, place] =
        SessionOptions{};
    constexpr std::size_t kMembers = 23;
    (void
    )std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, face, place);
    EXPECT_EQ(option_table().size(), kMembers);
    for (Option const& one : option_table()) {
        for (Option const& other : option_table()) {
            EXPECT_EQ(one.member == other.member, &one == &other) << one.name << ' ' << other.name;
        }
    }
}

TEST(OptionTable, names_are_of_one_option_at_each_face) {
    for (Face const face : {Face::cpp, Face::python, Face::program}) {
        for (Option const& option : option_table()) {
            EXPECT_EQ(find_option(option_name(option.name, face), face), &option) << option.name;
        }
    }
    EXPECT_EQ(find_option("--nvme-rate", Face::program)->name, "nvme_rate_bytes_per_s");
    EXPECT_EQ(find_option("--nvme-rate"), nullptr);
}

TEST(OptionTable, what_an_entry_says_is_whole) {
    for (Option const& option : option_table()) {
        EXPECT_FALSE(option.help.empty()) << option.name;
        EXPECT_FALSE(option.help.ends_with('.')) << option.name;
        EXPECT_EQ(option.help.find('\n'), std::string_view::npos) << option.name;
        EXPECT_EQ(option.flag.empty(), option.group.empty()) << option.name;
        EXPECT_TRUE(option.flag.empty() || option.flag.starts_with("--")) << option.name;
        EXPECT_EQ(option.type == OptionType::choice, !option.choices.empty()) << option.name;
        for (std::string_view const needed : {option.needs, option.flag_needs}) {
            EXPECT_TRUE(needed.empty() || find_option(needed) != nullptr) << option.name;
        }
        EXPECT_FALSE(is_given(option, SessionOptions{})) << option.name;
    }
}

TEST(OptionTable, defaults_are_written_as_a_face_writes_them) {
    auto const default_of = [](char const* name, Face face) {
        return default_words(*find_option(name), face);
    };
    EXPECT_EQ(default_of("lossy", Face::program), "off");
    EXPECT_EQ(default_of("lossy", Face::python), "False");
    EXPECT_EQ(default_of("cap_from_open", Face::cpp), "true");
    EXPECT_EQ(default_of("nonfinite", Face::program), "keep");
    EXPECT_EQ(default_of("policy", Face::python), "\"online\"");
    EXPECT_EQ(default_of("device_budget_bytes", Face::python), "required");
    EXPECT_EQ(default_of("nvme_budget_bytes", Face::python), "nine tenths of the free space");
}

}  // namespace
}  // namespace spillway
