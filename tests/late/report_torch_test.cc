// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a session tells where copies are on streams. In virtual time a copy takes what the test
// says, so that rates and stalls are known to the nanosecond.

#include "late/late.h"
#include "late/late_session.h"
#include "test_paths.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>

namespace spillway {
namespace {

constexpr double kOutGbPerS = 2;
constexpr double kInGbPerS = 0.5;

/// Copies out at 2 GB/s and in at 0.5, operators at 8; or `slower` than that.
void in_virtual_time(std::int64_t slower = 1) {
    late::configure(
        {.mode = late::Mode::virtual_time,
         .duration =
             [slower](std::string_view op, std::int64_t size_bytes) {
                 // A copy touches its bytes at both ends.
                 std::int64_t const ns = op == "copy_d2h"   ? size_bytes / 4
                                         : op == "copy_h2d" ? size_bytes
                                                            : size_bytes / 8;
                 return ns * slower;
             },
         .quarantine_bytes = 1 << 20}
    );
}

SessionOptions options(std::string timeline_file = {}) {
    SessionOptions asked = small_options();
    asked.timeline_file = std::move(timeline_file);
    return asked;
}

/// A forward and a backward of more than the cap holds.
void step(std::shared_ptr<TorchSession> const& session) {
    allocate_from(session, false);
    session->loop().begin_step(1);
    session->loop().phase(Phase::forward);
    Tensor x = leaf(90);
    Tensor y = recorded(session, [&] { return chain(chain(x)).sum(); });
    session->loop().phase(Phase::backward);
    y.backward();
    late::wait_idle();
    session->loop().settle();
}

std::int64_t stalled(Report const& report, StallCause cause) {
    return report.stall_by_cause_ns[static_cast<std::size_t>(cause)];
}

nlohmann::json events_in(std::string const& path) {
    std::ifstream stream(path);
    return nlohmann::json::parse(stream, nullptr, false)["traceEvents"];
}

std::string file(std::string const& name) {
    return std::filesystem::path(build_folder()) / name;
}

TEST(Report, has_copies_both_ways_at_their_rates_and_the_stalls_for_them) {
    in_virtual_time();
    auto const session = open_on_host(options());
    step(session);
    Report const report = session->report();
    EXPECT_GT(report.copy_out_bytes, 0);
    EXPECT_GT(report.copy_in_bytes, 0);
    EXPECT_EQ(report.copy_out_bytes, report.stored_bytes);
    EXPECT_EQ(report.copy_in_bytes, report.loaded_bytes);
    EXPECT_EQ(report.copy_out_bytes, kOutGbPerS * static_cast<double>(report.copy_out_ns));
    EXPECT_EQ(report.copy_in_bytes, kInGbPerS * static_cast<double>(report.copy_in_ns));
    EXPECT_GT(stalled(report, StallCause::copy_in), 0) << "loads are slower than backward";
    EXPECT_GE(stalled(report, StallCause::copy_in), report.stall_load_ns);
    EXPECT_EQ(stalled(report, StallCause::nvme), 0);
}

TEST(Report, host_memory_is_locked_to_the_byte) {
    auto const on_host = open_on_host(options())->report();
    EXPECT_EQ(on_host.host_requested_bytes, values(1024));
    EXPECT_EQ(on_host.host_locked_bytes, on_host.host_requested_bytes);
    auto const staged = open_staged(options(), std::make_unique<MemoryTier>(values(8)))->report();
    EXPECT_EQ(staged.host_requested_bytes, values(4));
    EXPECT_EQ(staged.host_locked_bytes, staged.host_requested_bytes);
    EXPECT_EQ(staged.staging_bytes, staged.host_requested_bytes);
}

TEST(Report, a_timeline_has_every_copy_at_its_rate) {
    in_virtual_time();
    auto session = open_on_host(options(file("late_copies.timeline.json")));
    step(session);
    Report const report = session->report();
    session.reset();
    std::int64_t out_bytes = 0;
    double stalls_us = 0;
    for (nlohmann::json const& event : events_in(file("late_copies.timeline.json"))) {
        if (event["name"].get<std::string>().starts_with("store ")) {
            EXPECT_EQ(event["tid"], static_cast<int>(Lane::copy_out));
            EXPECT_NEAR(event["args"]["gb_per_s"].get<double>(), kOutGbPerS, 0.001);
            out_bytes += event["args"]["size_bytes"].get<std::int64_t>();
        }
        stalls_us += event["name"] == "stall copy_in" ? event["dur"].get<double>() : 0;
    }
    EXPECT_EQ(out_bytes, report.copy_out_bytes);
    // Of spans that overlap on a lane the later one is cut, which depends on the host's clock.
    EXPECT_LE(stalls_us, static_cast<double>(stalled(report, StallCause::copy_in)) / 1e3 + 1);
}

TEST(Report, a_timeline_of_many_seconds_keeps_its_times) {
    constexpr std::int64_t kSlower = 1'000'000;  // a copy of 4 KiB takes two seconds
    in_virtual_time(kSlower);
    auto session = open_on_host(options(file("late_slow.timeline.json")));
    step(session);
    session.reset();
    double last_end_us = 0;
    for (nlohmann::json const& event : events_in(file("late_slow.timeline.json"))) {
        if (event["name"].get<std::string>().starts_with("store ")) {
            double const size_bytes = event["args"]["size_bytes"].get<double>();
            EXPECT_NEAR(event["dur"].get<double>(), size_bytes / kOutGbPerS * kSlower / 1000, 1);
            EXPECT_FALSE(event["args"].contains("took_us")) << "one copy at a time";
            last_end_us = event["ts"].get<double>() + event["dur"].get<double>();
        }
    }
    EXPECT_GT(last_end_us, 20e6) << "long enough to measure from a new base";
}

TEST(Report, bytes_that_go_through_staging_are_on_two_lanes) {
    auto session = open_staged(
        options(file("late_staged.timeline.json")), std::make_unique<MemoryTier>(values(1024))
    );
    step(session);
    Report const report = session->report();
    session.reset();
    std::array<std::int64_t, kLanes + 1> bytes{};
    for (nlohmann::json const& event : events_in(file("late_staged.timeline.json"))) {
        if (event["ph"] == "X" && event.contains("args")) {
            bytes.at(event["tid"].get<std::size_t>()) += event["args"].value("size_bytes", 0);
        }
    }
    auto const on = [&](Lane lane) { return bytes[static_cast<std::size_t>(lane)]; };
    EXPECT_GT(report.nvme_stored_bytes, 0);
    EXPECT_EQ(on(Lane::copy_out), report.copy_out_bytes);
    EXPECT_EQ(on(Lane::copy_in), report.copy_in_bytes);
    EXPECT_EQ(on(Lane::nvme_write), report.nvme_stored_bytes);
    EXPECT_EQ(on(Lane::nvme_read), report.nvme_moved_bytes - report.nvme_stored_bytes);
}

}  // namespace
}  // namespace spillway
