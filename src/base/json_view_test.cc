// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/json_view.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace spillway {
namespace {

TEST(JsonView, reads_what_is_there) {
    JsonDocument document(R"({"n": 7, "x": 0.5, "s": "\u00e9", "b": true, "l": [1, 2]})", "test");
    JsonView const root = document.root();
    root.only({"n", "x", "s", "b", "l"});
    EXPECT_EQ(root.at("n").integer(), 7);
    EXPECT_EQ(root.at("x").number(0, 1), 0.5);
    EXPECT_EQ(root.at("s").text(), "\xc3\xa9");
    EXPECT_TRUE(root.at("b").boolean());
    EXPECT_EQ(root.at("l").items().size(), 2u);
    EXPECT_EQ(root.at("s").one_of({"a", "\xc3\xa9"}), 1u);
    EXPECT_TRUE(document.result().ok());
}

template <typename Read>
std::string problem_of(char const* text, Read&& read) {
    JsonDocument document(text, "test");
    read(document.root());
    Result<void> const result = document.result();
    return result ? "" : result.error().message();
}

TEST(JsonView, names_the_field_that_is_wrong) {
    auto const integer = [](JsonView const& root) {
        for (JsonView const& item : root.at("list").items()) {
            (void)item.at("n").integer(0, 9);
        }
    };
    EXPECT_EQ(problem_of(R"({"list": [{"n": 1}, {}]})", integer), "test: list[1].n is missing");
    EXPECT_EQ(
        problem_of(R"({"list": [{"n": 10}]})", integer),
        "test: list[0].n must be a whole number from 0 to 9"
    );
    EXPECT_EQ(problem_of(R"({"list": 3})", integer), "test: list must be a list");
    EXPECT_EQ(problem_of(R"([])", integer), "test: the text must be an object");
    EXPECT_EQ(problem_of(R"({"list")", integer), "test: is not JSON");
}

TEST(JsonView, names_the_kind_of_a_file_that_is_another) {
    auto const version = [](JsonView const& root) { root.version("spillway_trace", 6); };
    EXPECT_EQ(problem_of(R"({"spillway_trace": 6})", version), "");
    EXPECT_EQ(problem_of(R"({"x": 6})", version), "test: spillway_trace is missing");
    EXPECT_EQ(
        problem_of(R"({"spillway_machine": 2})", version),
        "test: the text is a spillway_machine, and no spillway_trace"
    );
}

TEST(JsonView, refuses_numbers_that_do_not_fit) {
    auto const read = [](JsonView const& root) { (void)root.at("n").integer(); };
    for (char const* text :
         {R"({"n": 9223372036854775808})", R"({"n": 1.0})", R"({"n": -1})", R"({"n": "1"})"}) {
        EXPECT_EQ(problem_of(text, read), "test: n must be a whole number from 0 on") << text;
    }
    EXPECT_EQ(problem_of(R"({"n": 9223372036854775807})", read), "");
}

TEST(JsonView, refuses_unknown_fields) {
    auto const read = [](JsonView const& root) { root.only({"a"}); };
    EXPECT_EQ(problem_of(R"({"a": 1, "b": 2})", read), "test: the text has an unknown field 'b'");
}

TEST(JsonView, keeps_the_first_problem) {
    JsonDocument document("{}", "test");
    (void)document.root().at("a").text();
    (void)document.root().at("b").text();
    EXPECT_EQ(document.result().error().what, "a is missing");
}

TEST(JsonView, lines_share_below_the_depth) {
    nlohmann::ordered_json const json{{"b", {1, 2}}, {"a", nlohmann::ordered_json::array()}};
    EXPECT_EQ(json_line(json), R"({"b":[1,2],"a":[]})");
    EXPECT_EQ(json_lines(json, 1), "{\n  \"b\": [1,2],\n  \"a\": []\n}\n");
}

TEST(JsonView, writes_text_that_is_not_utf8) {
    EXPECT_EQ(json_line(nlohmann::ordered_json("a\xff")), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace spillway
