// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "simulator/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

namespace spillway {
namespace {

/// NVMe moves a byte a nanosecond each way; the host ten.
Machine box() {
    Machine machine;
    machine.tiers = {{"device", Pool::device, 1}, {"host", Pool::host, 1}, {"nvme", Pool::nvme, 1}};
    machine.links = {
        {Pool::device, Pool::host, 10e9, 10e9, 0, ""},
        {Pool::host, Pool::device, 10e9, 10e9, 0, ""},
        {Pool::device, Pool::nvme, 1e9, 1e9, 0, ""},
        {Pool::nvme, Pool::device, 1e9, 1e9, 0, ""}};
    return machine;
}

/// Saves `layers` values of 1000 bytes, one a point, and needs them in the other order. Each is
/// unshared when the next is saved. The floor is 100 bytes.
Trace chain(std::int64_t layers, std::int64_t duration_ns) {
    Trace trace;
    trace.name = "chain";
    for (std::int64_t i = 0; i < layers; ++i) {
        trace.values.push_back(
            {.slot = {"layer", 0, static_cast<std::int32_t>(i)}, .size_bytes = 1000}
        );
        TracePoint point{.duration_ns = duration_ns, .floor_bytes = 100, .saved = {ValueId{i}}};
        if (i > 0) {
            point.unshared = {ValueId{i - 1}};
        }
        trace.points.push_back(point);
    }
    for (std::int64_t i = layers - 1; i >= 0; --i) {
        trace.points.push_back(
            {.phase = Phase::backward,
             .duration_ns = 2 * duration_ns,
             .floor_bytes = 100,
             .needed = {ValueId{i}},
             .dropped = {ValueId{i}}}
        );
    }
    return trace;
}

SimulationResult run(
    Trace const& trace,
    ExecutorOptions const& options,
    SimulatorOptions const& how = {},
    Plan const* plan = nullptr
) {
    Result<SimulationResult> result = simulate(trace, box(), options, plan, how);
    EXPECT_TRUE(result.ok()) << result.error().message();
    return result.ok() ? std::move(*result) : SimulationResult{};
}

TEST(Simulator, without_a_limit_nothing_moves) {
    SimulationResult const result = run(chain(8, 1000), {.device_bytes = 0, .nvme_bytes = 9000});
    EXPECT_TRUE(result.ok);
    EXPECT_EQ(result.total_ns, 8 * 1000 + 8 * 2000);
    EXPECT_EQ(result.compute_ns, result.total_ns);
    EXPECT_EQ(result.stored_bytes, 0);
    EXPECT_EQ(result.peak_bytes[0], 8100);
}

TEST(Simulator, the_average_is_what_is_on_the_device_over_time) {
    SimulationResult const all = run(chain(8, 1000), {.device_bytes = 0, .nvme_bytes = 9000});
    // Forward has 1, 2, ... 8 values for 1 us each; backward 8, 7, ... 1 for 2 us.
    EXPECT_EQ(all.value_byte_ns, 1000.0 * (36 * 1000 + 36 * 2000));
    EXPECT_EQ(all.device_byte_ns, all.value_byte_ns + 100.0 * 24'000);
    SimulationResult const half = run(chain(8, 1000), {.device_bytes = 4500, .nvme_bytes = 9000});
    EXPECT_LT(half.value_byte_ns, all.value_byte_ns);
    EXPECT_LE(half.device_byte_ns, 4500.0 * static_cast<double>(half.total_ns));
}

TEST(Simulator, compute_is_slower_while_bytes_move) {
    Machine machine = box();
    machine.device.interference = 0.25;
    for (std::int64_t const device_bytes : {0, 4500}) {
        Result<SimulationResult> const result = simulate(
            chain(8, 1000), machine, {.device_bytes = device_bytes, .nvme_bytes = 9000}, nullptr, {}
        );
        ASSERT_TRUE(result.ok() && result->ok);
        EXPECT_EQ(result->slowed_ns > 0, device_bytes > 0);
        EXPECT_EQ(result->compute_ns, 8 * 1000 + 8 * 2000);
        EXPECT_EQ(
            result->total_ns,
            result->compute_ns + result->slowed_ns + result->stall_need_ns + result->stall_room_ns
        );
    }
}

TEST(Simulator, a_limit_holds_and_values_come_back) {
    SimulationResult const result = run(chain(8, 1000), {.device_bytes = 4500, .nvme_bytes = 9000});
    EXPECT_TRUE(result.ok) << result.refusal;
    EXPECT_LE(result.peak_bytes[0], 4500);
    EXPECT_GE(result.loaded_bytes, 8 * 1000 + 100 - 4500);
    EXPECT_EQ(result.total_ns, result.compute_ns + result.stall_need_ns + result.stall_room_ns);
}

TEST(Simulator, slow_compute_hides_every_copy) {
    SimulationResult const result =
        run(chain(8, 50'000), {.device_bytes = 4500, .nvme_bytes = 9000});
    EXPECT_EQ(result.stall_room_ns, 0);
    EXPECT_EQ(result.stall_need_ns, 0);
    EXPECT_GT(result.loaded_bytes, 0);
}

TEST(Simulator, fast_compute_waits_for_the_disk) {
    SimulationResult const result = run(chain(8, 10), {.device_bytes = 4500, .nvme_bytes = 9000});
    EXPECT_TRUE(result.ok);
    EXPECT_GE(result.total_ns, result.loaded_bytes);  // a byte a nanosecond
    EXPECT_GT(result.stall_need_ns, 0);
    EXPECT_GT(result.stall_room_ns, 0);
}

TEST(Simulator, a_hopeless_budget_is_refused_in_words) {
    SimulationResult const result = run(chain(8, 1000), {.device_bytes = 1050, .nvme_bytes = 9000});
    EXPECT_FALSE(result.ok);
    EXPECT_NE(result.refusal.find("asked for"), std::string::npos) << result.refusal;
}

TEST(Simulator, keep_all_is_refused_where_online_trains) {
    ExecutorOptions options{.device_bytes = 4500, .nvme_bytes = 9000};
    EXPECT_TRUE(run(chain(8, 1000), options).ok);
    options.chooser = ChooserKind::keep_all;
    EXPECT_FALSE(run(chain(8, 1000), options).ok);
}

TEST(Simulator, a_plan_chooses_the_pool) {
    Trace const trace = chain(8, 1000);
    Plan plan;
    for (TraceValue const& value : trace.values) {
        plan.fates[value.slot] = {FateKind::move, Pool::nvme};
    }
    ExecutorOptions const options{ChooserKind::planned, 4500, 9000, 9000};
    SimulationResult const planned = run(trace, options, {}, &plan);
    EXPECT_EQ(planned.peak_bytes[1], 0);
    EXPECT_GT(planned.peak_bytes[2], 0);
    SimulationResult const unplanned = run(trace, options);
    EXPECT_GT(unplanned.peak_bytes[1], 0);
}

TEST(Simulator, what_a_plan_keeps_is_made_again_where_the_step_does_not_fit_otherwise) {
    Trace trace = chain(8, 1000);
    Plan plan;
    for (std::size_t i = 0; i < trace.values.size(); ++i) {
        plan.fates[trace.values[i].slot] = {FateKind::keep};
        if (i % 2 == 1) {
            trace.values[i].recipe =
                RecipeShape{{ValueId{static_cast<std::int64_t>(i) - 1}}, 1, 500, 0};
        }
    }
    SimulatorOptions const by_recipes{.has_recipes = true};
    ExecutorOptions options{.chooser = ChooserKind::planned, .device_bytes = 8100};
    SimulationResult const ample = run(trace, options, by_recipes, &plan);
    EXPECT_TRUE(ample.ok) << ample.refusal;
    EXPECT_EQ(ample.recomputes, 0);
    options.device_bytes = 6100;
    SimulationResult const short_of_two = run(trace, options, by_recipes, &plan);
    EXPECT_TRUE(short_of_two.ok) << short_of_two.refusal;
    EXPECT_EQ(short_of_two.recomputes, 2);
    EXPECT_LE(short_of_two.peak_bytes[0], 6100);
}

TEST(Simulator, a_needed_load_that_fails_stops_the_step) {
    SimulationResult const result =
        run(chain(8, 1000), {.device_bytes = 2150, .nvme_bytes = 9000}, {.fail_load = 1});
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.refusal, "cannot bring back value 5: injected fault");
}

TEST(Simulator, a_read_ahead_that_fails_is_read_again_when_needed) {
    SimulationResult const result =
        run(chain(8, 1000), {.device_bytes = 4500, .nvme_bytes = 9000}, {.fail_load = 1});
    EXPECT_TRUE(result.ok) << result.refusal;
    SimulationResult const well = run(chain(8, 1000), {.device_bytes = 4500, .nvme_bytes = 9000});
    EXPECT_EQ(result.loaded_bytes, well.loaded_bytes + 1000);
}

TEST(Simulator, what_is_too_large_for_nvme_goes_to_the_host_or_stays) {
    ExecutorOptions options{
        .device_bytes = 4500, .host_bytes = 2000, .nvme_bytes = 9000, .nvme_value_bytes = 999};
    SimulationResult const host = run(chain(8, 1000), options);
    EXPECT_EQ(host.peak_bytes[2], 0);
    EXPECT_EQ(host.peak_bytes[1], 2000);
    EXPECT_NE(
        host.refusal.find("the host budget is full, and what is left is too long for NVMe"),
        std::string::npos
    ) << host.refusal;
    options.nvme_value_bytes = 1000;
    SimulationResult const both = run(chain(8, 1000), options);
    EXPECT_TRUE(both.ok) << both.refusal;
    EXPECT_GT(both.peak_bytes[2], 0);
}

TEST(Simulator, a_full_place_falls_back_or_refuses) {
    ExecutorOptions const options{.device_bytes = 4500, .host_bytes = 9000, .nvme_bytes = 9000};
    SimulationResult const other = run(chain(8, 1000), options, {.full_at_bytes = {-1, 2000, -1}});
    EXPECT_TRUE(other.ok) << other.refusal;
    EXPECT_EQ(other.peak_bytes[1], 2000);
    EXPECT_GT(other.peak_bytes[2], 0);
    SimulationResult const none = run(chain(8, 1000), options, {.full_at_bytes = {-1, 0, 0}});
    EXPECT_FALSE(none.ok);
}

TEST(Simulator, more_steps_reuse_what_was_released) {
    SimulatorOptions const how{.steps = 5};
    SimulationResult const result =
        run(chain(8, 1000), {.device_bytes = 4500, .nvme_bytes = 9000}, how);
    EXPECT_TRUE(result.ok) << result.refusal;
    EXPECT_LE(result.peak_bytes[2], 9000);
    EXPECT_EQ(result.compute_ns, 5 * (8 * 1000 + 8 * 2000));
}

TEST(Simulator, writes_its_log_as_it_goes) {
    std::ostringstream lines;
    SimulationResult const result =
        run(chain(3, 10), {.device_bytes = 2500, .nvme_bytes = 9000}, {.log_to = &lines});
    EXPECT_EQ(log_header(result.log.options) + "\n" + lines.str(), to_text(result.log));
    EXPECT_TRUE(replay(result.log).identical);
}

/// Every value leaves at once; encoded, in `encoded_bytes`.
SimulatorOptions encoding(Trace const& trace, std::int64_t encoded_bytes) {
    SimulatorOptions how;
    for (TraceValue const& value : trace.values) {
        how.rule[value.slot] = {encoded_bytes, Advice::at_once};
    }
    return how;
}

ExecutorOptions const kTight{.device_bytes = 4500, .nvme_bytes = 9000};

TEST(Simulator, encoded_values_cross_the_links_with_fewer_bytes) {
    Trace const trace = chain(8, 10);
    SimulationResult const raw = run(trace, kTight, encoding(trace, 0));
    SimulationResult const coded = run(trace, kTight, encoding(trace, 250));
    EXPECT_EQ(coded.encodes, 7);  // the last is never unshared
    EXPECT_GT(coded.decodes, 0);
    EXPECT_EQ(raw.stored_bytes, 7000);
    EXPECT_EQ(coded.stored_bytes, 7 * 250);
    EXPECT_EQ(coded.peak_bytes[2], 7 * 250);
    EXPECT_EQ(coded.loaded_bytes, coded.decodes * 250);
    EXPECT_LT(coded.total_ns, raw.total_ns);
    EXPECT_TRUE(replay(coded.log).identical);
}

TEST(Simulator, a_slow_codec_is_waited_for) {
    Trace const trace = chain(8, 10);
    SimulatorOptions how = encoding(trace, 250);
    SimulationResult const fast = run(trace, kTight, how);
    how.encode_rate_bytes_per_s = how.decode_rate_bytes_per_s = 0.1e9;  // 10 us a value
    SimulationResult const slow = run(trace, kTight, how);
    EXPECT_GT(slow.stall_room_ns, fast.stall_room_ns);
    EXPECT_GT(slow.stall_need_ns, fast.stall_need_ns + slow.decodes * 5'000);
    std::int64_t side_ns = 0;
    for (Span const& span : slow.timeline.spans) {
        bool const is_run = span.what == "encode" || span.what == "decode";
        EXPECT_EQ(is_run, span.lane == Lane::side) << span.what;
        side_ns += is_run ? span.end_ns - span.start_ns : 0;
    }
    EXPECT_EQ(side_ns, (slow.encodes + slow.decodes) * 10'000);
    EXPECT_TRUE(validate(slow.timeline).ok());
}

TEST(Simulator, what_cannot_be_encoded_leaves_as_it_is) {
    Trace const trace = chain(8, 1000);
    SimulatorOptions how = encoding(trace, 250);
    how.raw_every = 1;
    SimulationResult const result = run(trace, kTight, how);
    EXPECT_TRUE(result.ok) << result.refusal;
    EXPECT_EQ(result.encodes, 7);
    EXPECT_EQ(result.decodes, 0);
    EXPECT_GE(result.peak_bytes[2], 1000);
    EXPECT_EQ(result.loaded_bytes % 1000, 0);
    EXPECT_GT(result.loaded_bytes, 0);
}

TEST(Simulator, a_needed_decode_that_fails_stops_the_step) {
    Trace const trace = chain(8, 1000);
    SimulatorOptions how = encoding(trace, 250);
    how.fail_decode = 1;
    SimulationResult const result = run(trace, {.device_bytes = 2150, .nvme_bytes = 9000}, how);
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.refusal.substr(0, 24), "cannot bring back value ") << result.refusal;
    EXPECT_NE(result.refusal.find("injected: corrupt"), std::string::npos) << result.refusal;
}

TEST(Simulator, a_load_that_fails_is_told_in_its_own_words_through_the_decode) {
    Trace const trace = chain(8, 1000);
    SimulatorOptions how = encoding(trace, 250);
    how.fail_load = 1;
    SimulationResult const result = run(trace, {.device_bytes = 2150, .nvme_bytes = 9000}, how);
    EXPECT_FALSE(result.ok);
    EXPECT_NE(result.refusal.find("injected fault"), std::string::npos) << result.refusal;
}

TEST(Simulator, a_planned_codec_s_bytes_cross_the_link) {
    Trace trace = chain(4, 1);
    Plan plan;
    for (TraceValue& value : trace.values) {
        value.dtype = "float32";
        value.size_bytes = 100'000;
        plan.fates[value.slot] = {.kind = FateKind::move, .pool = Pool::nvme};
    }
    ExecutorOptions const options{
        .chooser = ChooserKind::planned, .nvme_bytes = std::int64_t{1} << 40};
    Result<SimulationResult> const raw = simulate(trace, box(), options, &plan, {});
    for (auto& [slot, fate] : plan.fates) {
        fate.codec = "affine8";
    }
    SimulatorOptions how;
    how.rule[trace.values[0].slot] = {1, Advice::at_once};
    Result<SimulationResult> const coded = simulate(trace, box(), options, &plan, how);
    ASSERT_TRUE(raw.ok() && coded.ok());
    EXPECT_EQ(raw->encodes, 0);
    EXPECT_EQ(coded->encodes, 3) << "the last is not free before it is needed";
    EXPECT_GT(coded->stored_bytes * 5, raw->stored_bytes);
    EXPECT_LT(coded->stored_bytes * 3, raw->stored_bytes);
}

TEST(Simulator, refuses_what_it_cannot_run) {
    Machine no_links;
    Result<SimulationResult> const result =
        simulate(chain(2, 1), no_links, {.nvme_bytes = 1}, nullptr, {});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().message(), "machine: has no link to NVMe and back");
    Trace broken = chain(2, 1);
    broken.points.pop_back();
    broken.points[0].saved.clear();
    EXPECT_FALSE(simulate(broken, box(), {}, nullptr, {}).ok());
    SimulatorOptions how;
    how.encode_rate_bytes_per_s = 0.5;
    EXPECT_FALSE(simulate(chain(2, 1), box(), {}, nullptr, how).ok());
    how = {};
    how.rule[{"layer", 0, 0}].encoded_bytes = -1;
    EXPECT_FALSE(simulate(chain(2, 1), box(), {}, nullptr, how).ok());
}

}  // namespace
}  // namespace spillway
