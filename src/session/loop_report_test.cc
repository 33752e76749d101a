// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the loop reports about itself.

#include "base/units.h"
#include "session/loop_rig.h"
#include "test_paths.h"
#include "tier/host_tier.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace spillway {
namespace {

std::int64_t stalled(Report const& report, StallCause cause) {
    return report.stall_by_cause_ns[static_cast<std::size_t>(cause)];
}
std::int64_t stalled(Loop& loop, StallCause cause) {
    return stalled(loop.report(), cause);
}

nlohmann::json report_events_in(std::string const& path) {
    std::ifstream stream(path);
    return nlohmann::json::parse(stream, nullptr, false)["traceEvents"];
}
std::int64_t bytes_on(nlohmann::json const& events, Lane lane) {
    std::int64_t sum_bytes = 0;
    for (nlohmann::json const& event : events) {
        if (event["ph"] == "X" && event["tid"] == static_cast<int>(lane)) {
            sum_bytes += event["args"].value("size_bytes", 0);
        }
    }
    return sum_bytes;
}
double microseconds_of(nlohmann::json const& events, std::string const& name) {
    double sum_us = 0;
    for (nlohmann::json const& event : events) {
        sum_us += event["ph"] == "X" && event["name"] == name ? event["dur"].get<double>() : 0;
    }
    return sum_us;
}

/// Saves what does not fit beside each other, and needs it again. The tier takes its time.
void stall_once(Rig& rig) {
    rig.tier->set_delay_ms(2);
    std::vector<ValueId> const values = rig.save_all(12, 256_KiB);
    ASSERT_TRUE(rig.loop->need(values.front()).ok());
    for (ValueId const value : values) {
        rig.done_with(value);
    }
    rig.loop->settle();
}

/// Until it has waited for both: this thread may have been away for longer than the tier takes.
void stall(Rig& rig) {
    do {
        stall_once(rig);
    } while (rig.loop->report().stall_load_ns == 0 || rig.loop->report().stall_store_ns == 0);
}

TEST(LoopReport, a_peak_after_the_last_event_is_its_phases) {
    Rig rig(4_MiB);
    rig.loop->phase(Phase::forward);
    rig.device->free(rig.device->try_allocate(1_MiB, {0}));
    for (int again = 0; again < 2; ++again) {
        Report const report = rig.loop->report();
        EXPECT_GE(report.device_peak_by_phase[static_cast<std::size_t>(Phase::forward)], 1_MiB);
    }
}

TEST(LoopReport, waits_for_a_disk_are_told_apart_from_making_room) {
    Rig rig(2_MiB);
    std::int64_t const began_ns = steady_now_ns();
    stall(rig);
    std::int64_t const took_ns = steady_now_ns() - began_ns;
    Report const report = rig.loop->report();
    EXPECT_GT(stalled(*rig.loop, StallCause::nvme), 0);
    EXPECT_EQ(stalled(*rig.loop, StallCause::nvme), report.stall_store_ns + report.stall_load_ns);
    EXPECT_EQ(stalled(*rig.loop, StallCause::copy_out), 0);
    EXPECT_EQ(stalled(*rig.loop, StallCause::copy_in), 0);
    EXPECT_GT(stalled(*rig.loop, StallCause::admission), 0);
    EXPECT_LE(
        stalled(*rig.loop, StallCause::nvme) + stalled(*rig.loop, StallCause::admission), took_ns
    ) << "no wait counts twice";
}

TEST(LoopReport, waits_for_a_place_in_memory_are_copies) {
    Rig rig(2_MiB, {}, {}, 64_MiB, ChooserKind::online, Pool::host);
    stall(rig);
    Report const report = rig.loop->report();
    EXPECT_EQ(stalled(*rig.loop, StallCause::copy_out), report.stall_store_ns);
    EXPECT_EQ(stalled(*rig.loop, StallCause::copy_in), report.stall_load_ns);
    EXPECT_EQ(stalled(*rig.loop, StallCause::nvme), 0);
}

TEST(LoopReport, room_that_is_refused_at_once_was_no_wait_for_a_move) {
    Rig rig(1_MiB, {}, {}, 64_MiB, ChooserKind::keep_all);
    ASSERT_FALSE(rig.loop->make_room(2_MiB).ok());
    EXPECT_GT(stalled(*rig.loop, StallCause::admission), 0);
    EXPECT_EQ(stalled(*rig.loop, StallCause::nvme), 0);
}

TEST(LoopReport, host_memory_of_tiers_and_staging_is_in_the_report) {
    auto device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
    Blocks driver(*device);
    MoverOptions options{.staging = map_host_memory(64_KiB).value()};
    auto mover = std::make_unique<Mover>(
        device, HostTier::open(1_MiB + 1).value(), nullptr, std::move(options)
    );
    Loop loop({}, device, std::move(mover), driver);
    EXPECT_EQ(loop.report().host_requested_bytes, 1_MiB + 1 + 64_KiB);
    EXPECT_EQ(loop.report().host_locked_bytes, 0);
    EXPECT_EQ(loop.report().staging_bytes, 64_KiB);
}

TEST(LoopReport, a_timeline_has_every_move_once_and_the_stalls_of_the_report) {
    std::string const path = std::filesystem::path(build_folder()) / "loop_test.timeline.json";
    Report report;
    {
        Rig rig(2_MiB, {}, {}, 64_MiB, ChooserKind::online, Pool::nvme, path);
        rig.loop->begin_step(3);
        rig.loop->phase(Phase::forward);
        stall(rig);
        report = rig.loop->report();
    }
    nlohmann::json const events = report_events_in(path);
    EXPECT_EQ(bytes_on(events, Lane::nvme_write), report.stored_bytes);
    EXPECT_EQ(bytes_on(events, Lane::nvme_read), report.loaded_bytes);
    EXPECT_EQ(bytes_on(events, Lane::copy_out), 0);
    for (StallCause const cause : {StallCause::nvme, StallCause::admission}) {
        std::string const name = "stall " + std::string(name_of(cause));
        double const reported_us = static_cast<double>(stalled(report, cause)) / 1000;
        EXPECT_NEAR(microseconds_of(events, name), reported_us, 1) << name;
    }
    EXPECT_GT(microseconds_of(events, "step 3, forward"), 0);
}

TEST(LoopReport, a_step_that_fails_leaves_its_timeline) {
    std::string const path = std::filesystem::path(build_folder()) / "loop_test.failed.json";
    {
        Rig rig(1_MiB, {}, {}, 64_MiB, ChooserKind::keep_all, Pool::nvme, path);
        ASSERT_FALSE(rig.loop->make_room(2_MiB).ok());
    }
    EXPECT_GT(microseconds_of(report_events_in(path), "stall admission"), 0);
}

TEST(LoopReport, a_timeline_that_has_no_place_is_refused_by_name) {
    auto device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
    Blocks driver(*device);
    LoopOptions options;
    options.timeline_file = "/no/such/folder/trace.json";
    Loop loop(options, device, std::make_unique<Mover>(device, nullptr, nullptr), driver);
    EXPECT_EQ(loop.open_timeline().error().where, "/no/such/folder/trace.json");
}

}  // namespace
}  // namespace spillway
