// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/trace_table.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(TraceTable, shows_times_peaks_operators_and_reasons) {
    Trace trace;
    trace.name = "step 3";
    trace.values = {
        {.slot = {"input", 0, 0}, .size_bytes = 1 << 20, .why_no_recipe = "it was there before"},
        {.slot = {"aten::gelu", 0, 0},
         .size_bytes = 3 << 20,
         .recipe = RecipeShape{{ValueId{0}}, 1, 7, 0}}};
    trace.points = {
        {.duration_ns = 10'000'000, .floor_bytes = 2 << 20, .saved = {ValueId{0}, ValueId{1}}},
        {.phase = Phase::backward,
         .duration_ns = 20'000'000,
         .floor_bytes = 1 << 20,
         .needed = {ValueId{1}},
         .dropped = {ValueId{1}}}};
    ASSERT_TRUE(validate(trace).ok());
    EXPECT_EQ(
        to_table(trace),
        "step 3: 2 points, 0.030 s of compute, peak 6.0 MiB\n"
        "2 saved tensors, 4.0 MiB; 75 % of the bytes can be made again\n"
        "\n"
        "phase      points   seconds        peak       floor\n"
        "forward         1     0.010     6.0 MiB     2.0 MiB\n"
        "backward        1     0.020     5.0 MiB     1.0 MiB\n"
        "peak: of all bytes, if nothing leaves; floor: of those that are no saved tensor\n"
        "\n"
        "made by                                      tensors       bytes       again\n"
        "aten::gelu                                         1     3.0 MiB       100 %\n"
        "input                                              1     1.0 MiB         0 %\n"
        "\n"
        " tensors       bytes  not made again, because\n"
        "       1     1.0 MiB  it was there before\n"
    );
}

TEST(TraceTable, says_that_a_step_was_recorded_without_recipes) {
    Trace trace;
    trace.values = {{.slot = {"aten::gelu", 0, 0}, .size_bytes = 1 << 20}};
    trace.points = {{.saved = {ValueId{0}}}};
    std::string const note = "\nnote: " + std::string(kNoRecipes) + "\n";
    EXPECT_TRUE(to_table(trace).ends_with(note)) << to_table(trace);
    trace.values[0].recipe = RecipeShape{.sources = {}, .calls = 1};
    EXPECT_EQ(to_table(trace).find("note"), std::string::npos);
    trace.values[0].recipe.reset();
    trace.values[0].why_no_recipe = "it was there before";
    EXPECT_EQ(to_table(trace).find("note"), std::string::npos);
    EXPECT_EQ(to_table(Trace()).find("note"), std::string::npos);
}

TEST(TraceTable, long_lists_are_cut_and_summed_up) {
    Trace trace;
    trace.points.resize(1);
    for (std::int64_t i = 0; i < 30; ++i) {
        trace.values.push_back(
            {.slot = {"op" + std::to_string(i), 0, 0}, .size_bytes = 1024 * (30 - i)}
        );
        trace.points[0].saved.push_back(ValueId{i});
    }
    std::string const table = to_table(trace);
    EXPECT_NE(table.find("op19 "), std::string::npos);
    EXPECT_EQ(table.find("op20 "), std::string::npos);
    EXPECT_NE(
        table.find("10 others                                         10    55.0 KiB"),
        std::string::npos
    ) << table;
    EXPECT_EQ(table.find("because"), std::string::npos);
}

TEST(TraceTable, layers_in_the_order_of_the_forward) {
    Trace trace;
    for (std::int64_t i = 0; i < 22; ++i) {
        trace.values.push_back(
            {.slot = {"op", 0, static_cast<std::int32_t>(i)},
             .size_bytes = (i + 1) << 20,
             .module = "model.h." + std::to_string(i) + ".norm"}
        );
        trace.points.push_back({.duration_ns = 1'000'000, .saved = {ValueId{i}}});
    }
    for (std::int64_t i = 22; i-- > 0;) {
        trace.points.push_back(
            {.phase = Phase::backward,
             .duration_ns = 2'000'000,
             .needed = {ValueId{i}},
             .dropped = {ValueId{i}}}
        );
    }
    ASSERT_TRUE(validate(trace).ok());
    std::string const table = to_table(trace);
    for (char const* const row :
         {"layer                                        tensors       bytes       again   forward  "
          "backward\n"
          "model.h.0                                          1     1.0 MiB         0 %   0.001 s  "
          " "
          "0.002 s\n"
          "model.h.1  ",
          "model.h.19                                         1    20.0 MiB         0 %   0.001 s  "
          " "
          "0.002 s\n"
          "2 others                                           2    43.0 MiB         0 %   0.002 s  "
          " "
          "0.004 s\n"}) {
        EXPECT_NE(table.find(row), std::string::npos) << table;
    }
}

TEST(TraceTable, of_nothing) {
    EXPECT_EQ(to_table(Trace()).substr(0, 6), "trace:");
}

}  // namespace
}  // namespace spillway
