// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "spillway/model_trace.h"

#include "machine/data_sheets.h"
#include "report/tight_point.h"
#include "session/foretell.h"
#include "trace/trace.h"
#include "workload/workload.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(ModelTraceText, is_the_models_trace_on_a_machine_by_name) {
    Result<std::string> const text = model_trace({.model = "resnet50", .machine = "titan-x"});
    ASSERT_TRUE(text.ok()) << text.error().message();
    Result<Trace> const trace = parse_trace(*text);
    ASSERT_TRUE(trace.ok()) << trace.error().message();
    EXPECT_EQ(trace->name, "resnet50, batch 64, float32, not run");
}

TEST(ModelTraceText, what_is_wrong_is_one_line) {
    EXPECT_EQ(model_trace({.model = "resnet50", .machine = "z9"}).error().code, Errc::bad_argument);
    EXPECT_EQ(model_trace({.model = "x", .machine = "h100"}).error().code, Errc::bad_argument);
    EXPECT_EQ(
        model_trace({.model = "vgg16", .machine = "h100", .dtype = "int4"}).error().code,
        Errc::bad_argument
    );
}

TEST(ModelTraceText, a_step_that_was_not_run_runs_in_the_simulator_under_a_smaller_budget) {
    Machine const machine = *find_data_sheet("v100_32");
    Trace const trace = *make_workload({.model = "resnet50", .batch = 8}, machine);
    std::int64_t const peak_bytes = peak_without_moves(trace);
    std::int64_t const least_bytes = tightest_point(trace).size_bytes;
    ASSERT_LT(least_bytes, peak_bytes);
    std::int64_t const host_bytes = std::int64_t{64} << 30;
    Foretold const plain = foretell("online", trace, machine, {2 * peak_bytes, host_bytes, 0});
    ASSERT_EQ(plain.refusal, "");
    EXPECT_EQ(plain.stored_bytes + plain.recomputed_bytes, 0);
    EXPECT_EQ(plain.peak_bytes, peak_bytes);
    std::int64_t const half_bytes = least_bytes + (peak_bytes - least_bytes) / 2;
    Foretold const tight = foretell("online", trace, machine, {half_bytes, host_bytes, 0});
    ASSERT_EQ(tight.refusal, "");
    EXPECT_LE(tight.peak_bytes, half_bytes);
    EXPECT_GT(tight.stored_bytes + tight.recomputed_bytes, 0);
    EXPECT_NE(foretell("online", trace, machine, {least_bytes - 1, host_bytes, 0}).refusal, "");
}

}  // namespace
}  // namespace spillway
