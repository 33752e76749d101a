// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/trace.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace spillway {
namespace {

ValueId id(std::int64_t number) {
    return ValueId{number};
}

/// Two values: saved one by one, needed and dropped in the other order.
Trace two_values() {
    Trace trace;
    trace.name = "two values";
    trace.values = {
        {.slot = {"input", 0, 0}, .size_bytes = 100, .dtype = "float32"},
        {.slot = {"aten::gelu", 0, 0}, .size_bytes = 50, .recipe = RecipeShape{{{0}}, 1, 7, 0}}};
    trace.points = {
        {.duration_ns = 10, .floor_bytes = 5, .saved = {id(0)}},
        {.duration_ns = 10, .floor_bytes = 9, .saved = {id(1)}, .unshared = {id(0)}},
        {.phase = Phase::backward, .floor_bytes = 20, .needed = {id(1)}, .dropped = {id(1)}},
        {.phase = Phase::backward, .floor_bytes = 1, .needed = {id(0)}, .dropped = {id(0)}}};
    return trace;
}

std::string refusal(std::function<void(Trace&)> const& change) {
    Trace trace = two_values();
    change(trace);
    Result<void> const verdict = validate(trace);
    return verdict ? "" : verdict.error().message();
}

TEST(Trace, text_gives_the_same_trace) {
    Result<Trace> const parsed = parse_trace(to_json_text(two_values()));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message();
    EXPECT_EQ(*parsed, two_values());
}

TEST(Trace, empty_is_valid) {
    EXPECT_TRUE(validate(Trace{}).ok());
    EXPECT_EQ(*parse_trace(to_json_text(Trace{})), Trace{});
}

TEST(Trace, peak_counts_floor_and_live_values) {
    EXPECT_EQ(peak_without_moves(two_values()), 20 + 100 + 50);
}

TEST(Trace, refuses_values_out_of_order) {
    EXPECT_EQ(
        refusal([](Trace& t) { t.points[0].saved = {id(1)}; }),
        "trace: point 0: saves value 1 out of order"
    );
    EXPECT_EQ(
        refusal([](Trace& t) { t.points[1].saved = {id(0)}; }),
        "trace: point 1: saves value 0 out of order"
    );
    EXPECT_EQ(refusal([](Trace& t) { t.points.resize(1); }), "trace: value 1 is never saved");
}

TEST(Trace, refuses_what_is_not_live) {
    EXPECT_EQ(
        refusal([](Trace& t) { t.points[0].needed = {id(0)}; }),
        "trace: point 0: needs value 0, which is not live"
    );
    EXPECT_EQ(
        refusal([](Trace& t) { t.points[3].unshared = {id(1)}; }),
        "trace: point 3: lists as unshared value 1, which is not live"
    );
    EXPECT_EQ(
        refusal([](Trace& t) { t.points[3].dropped = {id(-1)}; }),
        "trace: point 3: drops value -1, which is not live"
    );
}

TEST(Trace, refuses_impossible_numbers) {
    EXPECT_EQ(
        refusal([](Trace& t) { t.values[1].size_bytes = -1; }),
        "trace: value 1 has an impossible size: -1 B"
    );
    EXPECT_EQ(
        refusal([](Trace& t) { t.values[0].size_bytes = 0; }),
        "trace: value 0 has an impossible size: 0 B"
    );
    EXPECT_EQ(
        refusal([](Trace& t) { t.points[2].floor_bytes = INT64_MAX; }),
        "trace: point 2: an impossible floor"
    );
    EXPECT_EQ(
        refusal([](Trace& t) { t.points[2].duration_ns = -1; }),
        "trace: point 2: an impossible duration"
    );
}

TEST(Trace, parser_names_the_field) {
    std::string text = to_json_text(two_values());
    text.replace(text.find("backward"), 8, "sideways");
    Result<Trace> const parsed = parse_trace(text);
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(
        parsed.error().message(),
        "trace: points[2].phase must be one of setup, forward, backward, update"
    );
}

}  // namespace
}  // namespace spillway
