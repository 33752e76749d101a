// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The trace of a step, made by a loop on real memory.

#include "base/clock.h"
#include "session/loop_rig.h"
#include "trace/trace.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>

namespace spillway {
namespace {

constexpr std::int64_t kTracedSize = 64_KiB;

struct TraceRig : Rig {
    explicit TraceRig(std::int64_t limit_bytes) : Rig(limit_bytes) {
        file = std::filesystem::path(::testing::TempDir()) /
               ("trace_" + std::to_string(::getpid()) + "_" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name());
    }
    ~TraceRig() { std::filesystem::remove(file); }

    /// Of the file, which has to be one.
    Trace traced() const {
        std::ifstream stream(file);
        std::string const text((std::istreambuf_iterator<char>(stream)), {});
        Result<Trace> trace = parse_trace(text);
        EXPECT_TRUE(trace.ok()) << (trace.ok() ? "" : trace.error().message());
        return trace.ok() ? *trace : Trace{};
    }

    /// Saves so many values, needs them in the other order, and lets go of each.
    void step(std::int64_t number, int count) {
        loop->begin_step(number);
        loop->phase(Phase::forward);
        std::vector<ValueId> const values = save_all(count, kTracedSize);
        loop->phase(Phase::backward);
        for (auto value = values.rbegin(); value != values.rend(); ++value) {
            EXPECT_TRUE(loop->need(*value).ok());
            expect_intact(*value);
            done_with(*value);
        }
        loop->phase(Phase::update);
    }

    std::filesystem::path file;
};

std::vector<std::int64_t> all_of(Trace const& trace, std::vector<ValueId> TracePoint::*ids) {
    std::vector<std::int64_t> found;
    for (TracePoint const& point : trace.points) {
        for (ValueId const id : point.*ids) {
            found.push_back(id.number);
        }
    }
    return found;
}

TEST(LoopTrace, the_step_after_the_next_is_traced_whether_or_not_its_values_leave) {
    std::vector<Trace> traces;
    for (std::int64_t const limit : {4_MiB, 8 * kTracedSize}) {
        TraceRig rig(limit);
        ASSERT_TRUE(rig.loop->trace_a_step(rig.file).ok());
        EXPECT_TRUE(rig.loop->is_tracing());
        rig.step(1, 5);
        rig.step(2, 12);
        EXPECT_TRUE(std::filesystem::is_empty(rig.file));
        rig.step(3, 3);
        EXPECT_FALSE(rig.loop->is_tracing());
        traces.push_back(rig.traced());
        EXPECT_EQ(rig.loop->report().stored_bytes > 0, limit < 4_MiB);
    }
    for (Trace& trace : traces) {
        EXPECT_EQ(trace.name, "step 2");
        ASSERT_EQ(trace.values.size(), 12U);
        EXPECT_EQ(trace.values[3].size_bytes, kTracedSize);
        EXPECT_EQ(trace.values[3].slot.producer, "test");
        std::vector<std::int64_t> forward(12);
        std::iota(forward.begin(), forward.end(), 0);
        std::vector<std::int64_t> const backward(forward.rbegin(), forward.rend());
        EXPECT_EQ(all_of(trace, &TracePoint::saved), forward);
        EXPECT_EQ(all_of(trace, &TracePoint::unshared), forward);
        EXPECT_EQ(all_of(trace, &TracePoint::needed), backward);
        EXPECT_EQ(all_of(trace, &TracePoint::dropped), backward);
        EXPECT_EQ(trace.points.front().phase, Phase::forward);
        EXPECT_EQ(trace.points.back().phase, Phase::update);
        EXPECT_EQ(peak_without_moves(trace), 12 * kTracedSize);
        for (std::size_t i = 0; i < trace.points.size(); ++i) {
            // Until it is saved a value is floor.
            bool const saves_next =
                i + 1 < trace.points.size() && !trace.points[i + 1].saved.empty();
            EXPECT_EQ(trace.points[i].floor_bytes, saves_next ? kTracedSize : 0);
            trace.points[i].duration_ns = 0;
        }
    }
    EXPECT_EQ(traces[0], traces[1]);
}

TEST(LoopTrace, what_is_no_value_of_the_step_is_floor) {
    TraceRig rig(4_MiB);
    rig.loop->begin_step(1);
    rig.loop->phase(Phase::forward);
    ValueId const older = rig.save(kTracedSize).value();
    ASSERT_TRUE(rig.loop->trace_a_step(rig.file).ok());
    rig.step(2, 1);
    void* const parameter = rig.allocate(2 * kTracedSize).value();
    rig.loop->begin_step(3);
    rig.loop->phase(Phase::forward);
    (void)rig.save(kTracedSize).value();
    void* const workspace = rig.allocate(16 * kTracedSize).value();
    rig.device->free(workspace);
    ValueId const last = rig.save(kTracedSize).value();
    EXPECT_TRUE(rig.loop->need(older).ok());
    rig.done_with(older);
    EXPECT_TRUE(rig.loop->need(last).ok());
    rig.loop->begin_step(4);
    Trace const trace = rig.traced();
    ASSERT_EQ(trace.values.size(), 2U);
    EXPECT_EQ(all_of(trace, &TracePoint::needed), std::vector<std::int64_t>{1});
    ASSERT_GE(trace.points.size(), 3U);
    EXPECT_EQ(trace.points[0].floor_bytes, (3 + 1) * kTracedSize);
    EXPECT_TRUE(trace.points[0].saved.empty());
    EXPECT_EQ(trace.points[1].floor_bytes, (3 + 16) * kTracedSize);
    EXPECT_EQ(peak_without_moves(trace), (3 + 1 + 16) * kTracedSize);
    EXPECT_EQ(trace.points.back().floor_bytes, 2 * kTracedSize);
    rig.device->free(parameter);
}

TEST(LoopTrace, compute_is_what_is_no_wait_and_no_call_of_the_runtime) {
    TraceRig rig(6 * kTracedSize);
    rig.tier->set_delay_ms(100);
    ASSERT_TRUE(rig.loop->trace_a_step(rig.file).ok());
    rig.step(1, 1);
    std::int64_t const before_ns = rig.loop->stalled_ns();
    std::int64_t const began_ns = steady_now_ns();
    rig.loop->begin_step(2);
    rig.loop->phase(Phase::forward);
    std::vector<ValueId> const values = rig.save_all(8, kTracedSize);
    std::int64_t const computed_until_ns = steady_now_ns() + 30'000'000;
    while (steady_now_ns() < computed_until_ns) {
    }
    rig.loop->phase(Phase::backward);
    EXPECT_TRUE(rig.loop->need(values.front()).ok());
    std::int64_t const waited_ns = rig.loop->stalled_ns() - before_ns;
    EXPECT_GT(waited_ns, 0);
    rig.loop.reset();
    std::int64_t const took_ns = steady_now_ns() - began_ns;
    Trace const trace = rig.traced();
    std::int64_t compute_ns = 0;
    std::int64_t longest_ns = 0;
    for (TracePoint const& point : trace.points) {
        compute_ns += point.duration_ns;
        longest_ns = std::max(longest_ns, point.duration_ns);
    }
    EXPECT_GE(longest_ns, 30'000'000);
    EXPECT_LE(compute_ns + waited_ns, took_ns) << "no wait is compute, too";
}

TEST(LoopTrace, recipes_refer_to_the_traces_values) {
    TraceRig rig(4_MiB);
    ASSERT_TRUE(rig.loop->trace_a_step(rig.file).ok());
    rig.step(1, 3);
    rig.loop->begin_step(2);
    rig.loop->phase(Phase::forward);
    ValueId const source = rig.save(kTracedSize).value();
    ValueId const made = rig.save(kTracedSize).value();
    ValueId const other = rig.save(kTracedSize).value();
    rig.driver->recipes[made] = {{{source}, 2, 1000, 7}, kTracedSize};
    rig.driver->late_recipes = {made};
    rig.loop->phase(Phase::backward);
    rig.loop->add_to_trace(
        {{source, {"layers.0", "it is an input"}},
         {made, {.module = "layers.1", .recipe_ns = 2000}},
         {other, {"", "unknown"}},
         {ValueId{999}, {"of another step", ""}}}
    );
    rig.loop.reset();
    Trace const trace = rig.traced();
    ASSERT_EQ(trace.values.size(), 3U);
    EXPECT_EQ(trace.values[1].recipe, (RecipeShape{{ValueId{0}}, 2, 2000, 7}));
    EXPECT_EQ(trace.values[1].module, "layers.1");
    EXPECT_EQ(trace.values[0].why_no_recipe, "it is an input");
    EXPECT_FALSE(trace.values[0].recipe);
}

TEST(LoopTrace, one_at_a_time_and_none_of_fewer_than_two_steps) {
    TraceRig rig(4_MiB);
    EXPECT_EQ(rig.loop->trace_a_step("/no/such/folder/x").error().code, Errc::io);
    EXPECT_FALSE(rig.loop->is_tracing());
    ASSERT_TRUE(rig.loop->trace_a_step(rig.file).ok());
    EXPECT_EQ(rig.loop->trace_a_step(rig.file).error().code, Errc::unsupported);
    rig.step(1, 2);
    rig.loop.reset();
    EXPECT_FALSE(std::filesystem::exists(rig.file));
}

TEST(LoopTrace, without_one_an_older_file_is_what_it_was) {
    TraceRig rig(4_MiB);
    std::ofstream(rig.file) << "older";
    ASSERT_TRUE(rig.loop->trace_a_step(rig.file).ok());
    rig.step(1, 2);
    rig.loop.reset();
    EXPECT_EQ(std::filesystem::file_size(rig.file), 5U);
}

TEST(LoopTrace, a_second_trace_may_follow) {
    TraceRig rig(4_MiB);
    for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(rig.loop->trace_a_step(rig.file).ok());
        rig.step(10 * i + 1, 1);
        rig.step(10 * i + 2, 2);
        rig.step(10 * i + 3, 3);
        EXPECT_EQ(rig.traced().name, "step " + std::to_string(10 * i + 2));
    }
}

}  // namespace
}  // namespace spillway
