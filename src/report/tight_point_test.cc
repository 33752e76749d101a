// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/tight_point.h"

#include "base/units.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

/// Two values; the first one is shared until the second is saved, so that both are there.
Trace tight_step() {
    Trace trace;
    trace.values = {
        {.slot = {"AddmmBackward0", 0, 0}, .size_bytes = 10_MiB, .module = "h.0"},
        {.slot = {"GeluBackward0", 0, 4}, .size_bytes = 20_MiB, .module = "h.1"}};
    trace.points = {
        {.floor_bytes = 1_MiB, .saved = {ValueId{0}}},
        {.floor_bytes = 2_MiB, .saved = {ValueId{1}}, .unshared = {ValueId{0}, ValueId{1}}},
        {.phase = Phase::backward,
         .floor_bytes = 9_MiB,
         .needed = {ValueId{1}},
         .dropped = {ValueId{1}}},
        {.phase = Phase::backward,
         .floor_bytes = 9_MiB,
         .needed = {ValueId{0}},
         .dropped = {ValueId{0}}}};
    return trace;
}

TEST(TightPoint, is_where_what_must_be_there_is_the_most) {
    Trace trace = tight_step();
    TightPoint const forward{1, 2_MiB, 32_MiB, {ValueId{1}, ValueId{0}}};
    EXPECT_EQ(tightest_point(trace), forward);
    trace.points[0].unshared = {ValueId{0}};
    TightPoint const backward{2, 9_MiB, 29_MiB, {ValueId{1}}};
    EXPECT_EQ(tightest_point(trace), backward);
}

TEST(TightPoint, is_said_in_a_line) {
    Trace const trace = tight_step();
    EXPECT_EQ(
        to_line(tightest_point(trace), trace),
        "at least 32.0 MiB are needed at point 1 of 4 (forward, h.1): floor 2.0 MiB; saved tensors "
        "20.0 MiB GeluBackward0#4 (h.1), 10.0 MiB AddmmBackward0#0 (h.0)"
    );
    EXPECT_EQ(to_line(tightest_point({}), {}), "");
}

TEST(TightPoint, names_three_values) {
    Trace trace;
    for (std::int64_t i = 0; i < 5; ++i) {
        trace.values.push_back({.slot = {"x", 0, static_cast<std::int32_t>(i)}, .size_bytes = 1});
    }
    trace.points = {{.saved = {ValueId{0}, ValueId{1}, ValueId{2}, ValueId{3}, ValueId{4}}}};
    std::string const line = to_line(tightest_point(trace), trace);
    EXPECT_NE(line.find("1 B x#2 and 2 others"), std::string::npos) << line;
}

}  // namespace
}  // namespace spillway
