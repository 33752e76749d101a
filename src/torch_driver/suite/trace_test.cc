// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Traces of real steps: they have what the step had, and a simulation of them has it again.

#include "plan/plan.h"
#include "simulator/simulator.h"
#include "test_paths.h"
#include "torch_driver/recorder/call_recorder.h"
#include "torch_driver/suite/suite.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace spillway {
namespace {

std::string traced_file() {
    std::filesystem::path const folder = std::filesystem::path(build_folder()) / "scratch";
    std::filesystem::create_directories(folder);
    return folder / ("traced_" + std::to_string(::getpid()) + ".json");
}

/// The step after the next, of a chain of values, in a session with so much.
Trace traced(std::int64_t limit_bytes, Report& report) {
    std::string const file = traced_file();
    recomputes() = true;
    Rig rig(limit_bytes);
    recomputes() = false;
    Tensor x = leaf(1);
    TorchSession& session = *rig.session;
    EXPECT_TRUE(session.loop().trace_a_step(file).ok());
    for (std::int64_t step = 1; step <= 3; ++step) {
        session.begin_pass();
        session.loop().begin_step(step);
        session.phase(Phase::forward);
        Tensor y = rig.record([&] { return chain(x).sum(); });
        session.phase(Phase::backward);
        y.backward();
        session.phase(Phase::update);
        x.mutable_grad() = Tensor();
    }
    report = session.report();
    std::ifstream stream(file);
    std::string const text((std::istreambuf_iterator<char>(stream)), {});
    std::filesystem::remove(file);
    Result<Trace> trace = parse_trace(text);
    EXPECT_TRUE(trace.ok()) << (trace.ok() ? "" : trace.error().message());
    return trace.ok() ? *trace : Trace{};
}

TEST(TracedStep, has_the_peak_and_the_recipes_of_the_step) {
    Report report;
    Trace const trace = traced(values(256), report);
    EXPECT_EQ(report.stored_bytes + report.recomputed_bytes, 0);
    EXPECT_EQ(trace.values.size(), 12U);
    EXPECT_EQ(peak_without_moves(trace), report.device_peak_bytes);
    std::int64_t recipes = 0;
    std::int64_t needed = 0;
    std::int64_t dropped = 0;
    for (TraceValue const& value : trace.values) {
        recipes += value.recipe ? 1 : 0;
        EXPECT_TRUE(value.size_bytes >= values(1));
    }
    for (TracePoint const& point : trace.points) {
        needed += std::ssize(point.needed);
        dropped += std::ssize(point.dropped);
    }
    EXPECT_GE(recipes, 10);  // of each sine's argument but the last, whose save comes last
    EXPECT_EQ(needed, 12);
    EXPECT_EQ(dropped, 12);
}

TEST(TracedStep, is_the_same_step_where_values_leave) {
    Report report;
    Trace const free = traced(values(256), report);
    Trace const tight = traced(values(8), report);
    EXPECT_GT(report.stored_bytes + report.recomputed_bytes, 0);
    ASSERT_EQ(tight.values.size(), free.values.size());
    for (std::size_t i = 0; i < free.values.size(); ++i) {
        EXPECT_EQ(tight.values[i].slot, free.values[i].slot);
        EXPECT_EQ(tight.values[i].size_bytes, free.values[i].size_bytes);
    }
}

Machine any_machine() {
    return {
        .name = "any",
        .tiers = {{"device", Pool::device, values(1024)}, {"host", Pool::host, values(1024)}},
        .links =
            {{Pool::device, Pool::host, 1e10, 1e10, 1000, ""},
             {Pool::host, Pool::device, 1e10, 1e10, 1000, ""}},
        .groups = {}};
}

TEST(TracedStep, runs_in_the_simulator_under_the_budgets_that_the_session_met) {
    Report report;
    Trace const trace = traced(values(256), report);
    for (std::int64_t const limit : {values(256), values(12), values(8)}) {
        SCOPED_TRACE(limit / values(1));
        ExecutorOptions const options{.device_bytes = limit, .host_bytes = values(1024)};
        Result<SimulationResult> const result =
            simulate(trace, any_machine(), options, nullptr, {.steps = 2});
        ASSERT_TRUE(result.ok()) << result.error().message();
        EXPECT_TRUE(result->ok) << result->refusal;
        EXPECT_LE(result->peak_bytes[static_cast<std::size_t>(Pool::device)], limit);
        EXPECT_EQ(result->stored_bytes + result->recomputed_bytes > 0, limit < values(256));
    }
}

/// All values of `trace` that have a recipe are made again by it.
std::string plan_file_of(Trace const& trace) {
    Plan plan;
    for (TraceValue const& value : trace.values) {
        plan.fates[value.slot].kind = value.recipe ? FateKind::recompute : FateKind::keep;
    }
    std::string file = traced_file() + ".plan";
    std::ofstream(file) << to_json_text(plan);
    return file;
}

TEST(RecordedStep, under_a_plan_has_only_what_its_recipes_need) {
    Report report;
    std::string const file = plan_file_of(traced(values(256), report));
    SessionOptions options{.device_budget_bytes = values(256), .plan = file};
    options.min_value_bytes = 1024;
    auto const session = suite().open(options, std::make_unique<MemoryTier>(values(1024)), true);
    std::filesystem::remove(file);
    Tensor x = leaf(1);
    auto const function = [](Tensor const& of) {
        return (chain(of) * 2).abs().sum() / 2;  // of what follows the chain nothing is made again
    };
    Tensor const plain = torch::autograd::grad({function(x)}, {x})[0];
    std::vector<std::int64_t> calls;
    for (std::int64_t step = 1; step <= 6; ++step) {
        session->begin_pass();
        session->loop().begin_step(step);
        session->phase(Phase::forward);
        std::int64_t const made_before = session->report().recomputed_values;
        Tensor const y = recorded(session, [&] {
            std::int64_t const before = recorder_here()->recorded_calls();
            Tensor const sum = function(x);
            calls.push_back(recorder_here()->recorded_calls() - before);
            return sum;
        });
        session->phase(Phase::backward);
        y.backward();
        EXPECT_TRUE(at::equal(x.grad(), plain)) << "step " << step;
        EXPECT_GT(session->report().recomputed_values, made_before + 8) << "step " << step;
        session->phase(Phase::update);
        x.mutable_grad() = Tensor();
    }
    EXPECT_GT(calls.front(), calls.back());
    EXPECT_EQ(calls.at(4), calls.back());
}

}  // namespace
}  // namespace spillway
