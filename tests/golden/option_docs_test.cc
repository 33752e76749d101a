// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The tables of options in docs/ are the table's own: a page holds one between two comments. What a
// failure prints is to be put there.

#include "spillway/option.h"
#include "test_paths.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace spillway {
namespace {

constexpr std::string_view kBegin = "<!-- options: src/base/option_table.cc -->\n";
constexpr std::string_view kEnd = "<!-- end of options -->\n";

bool is_shown(Option const& option, Face face) {
    return face == Face::cpp || !(face == Face::python ? option.python : option.flag).empty();
}

std::string table_of(Face face) {
    std::string text = fmt::format(
        "\n| {} | meaning | default |\n|---|---|---|\n", face == Face::program ? "flag" : "option"
    );
    for (Option const& option : option_table()) {
        if (is_shown(option, face)) {
            std::string const help = describe(option, face, Markup::markdown);
            text += fmt::format(
                "| `{}` | {} | {} |\n",
                option_name(option.name, face),
                help,
                describe_default(option, face, Markup::markdown)
            );
        }
    }
    return text + "\n";
}

void expect_table(char const* page, Face face) {
    std::ifstream file(source_folder() + "/docs/" + page);
    std::stringstream text;
    text << file.rdbuf();
    std::string const all = text.str();
    std::size_t const begin = all.find(kBegin);
    std::size_t const end = all.find(kEnd);
    ASSERT_TRUE(begin < end && end != std::string::npos) << page << " holds no table of options";
    std::size_t const first = begin + kBegin.size();
    EXPECT_EQ(all.substr(first, end - first), table_of(face)) << page << " is to hold\n"
                                                              << table_of(face);
}

TEST(OptionDocs, pages_hold_the_table) {
    expect_table("python.md", Face::python);
    expect_table("train.md", Face::program);
    expect_table("cpp.md", Face::cpp);
}

}  // namespace
}  // namespace spillway
