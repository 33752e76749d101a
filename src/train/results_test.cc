// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/results.h"

#include "train/process_stats.h"
#include "train/progress.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace spillway::train {
namespace {

TEST(results, losses_are_shortest_and_read_back_as_the_same_float) {
    Results results;
    results.losses = {5.6370125F, 0.1F, 3.4028235e38F, 1e-45F};
    auto const json = nlohmann::json::parse(text_of(results));
    for (std::size_t at = 0; at < results.losses.size(); ++at) {
        EXPECT_EQ(json["losses"][at].get<float>(), results.losses[at]);
    }
    EXPECT_NE(text_of(results).find("    0.1,"), std::string::npos);
}

TEST(results, the_format_and_its_version_come_first) {
    auto const json = nlohmann::ordered_json::parse(text_of(Results{}));
    EXPECT_EQ(json.begin().key(), "format");
    EXPECT_EQ(json["format"], "spillway.train");
    EXPECT_EQ(json["version"], 1);
}

TEST(results, what_is_not_known_is_null) {
    auto const json = nlohmann::json::parse(text_of(Results{}));
    for (char const* const name :
         {"error",
          "device_allocated_peak_bytes",
          "device_reserved_peak_bytes",
          "allocator_peak_bytes",
          "process_peak_bytes",
          "baseline_rss_bytes",
          "bytes_written",
          "bytes_read",
          "report",
          "options",
          "tokens_per_second"}) {
        EXPECT_TRUE(json.contains(name) && json[name].is_null()) << name;
    }
    EXPECT_EQ(json["ok"], false);
    EXPECT_EQ(json["device"], "cpu");
    EXPECT_EQ(json["steps"], 0);
}

TEST(results, a_loss_that_is_no_number_is_null) {
    Results results;
    results.losses = {std::numeric_limits<float>::quiet_NaN()};
    EXPECT_TRUE(nlohmann::json::parse(text_of(results))["losses"][0].is_null());
}

TEST(results, the_usual_step_leaves_out_the_first) {
    Results results;
    EXPECT_EQ(usual_step_seconds(results), 0);
    results.step_seconds = {9};
    EXPECT_EQ(usual_step_seconds(results), 9);
    results.step_seconds = {9, 1, 3, 2};
    EXPECT_EQ(usual_step_seconds(results), 2);
}

TEST(results, the_summary_says_what_is_known) {
    Results results;
    EXPECT_EQ(summary_of(results), "0 steps");
    results.losses = {5.5F, 3.25F};
    results.step_seconds = {9, 1.5};
    results.allocator_peak_bytes = 1 << 20;
    EXPECT_EQ(
        summary_of(results), "2 steps, loss 5.5000 to 3.2500, 1.50 s a step, device peak 1.0 MiB"
    );
}

TEST(results, an_accelerator_is_named_with_what_its_allocator_says) {
    Results results;
    results.device = "cuda:1";
    results.device_memory = DeviceMemory{1 << 20, 3 << 20};
    auto const json = nlohmann::json::parse(text_of(results));
    EXPECT_EQ(json["device"], "cuda:1");
    EXPECT_EQ(json["device_allocated_peak_bytes"], 1 << 20);
    EXPECT_EQ(json["device_reserved_peak_bytes"], 3 << 20);
    EXPECT_EQ(
        summary_of(results), "0 steps, cuda:1 allocated 1.0 MiB and reserved 3.0 MiB at most"
    );
}

TEST(results, the_report_is_that_of_its_page) {
    Results results;
    results.report = Report{.stored_bytes = 7};
    auto const json = nlohmann::json::parse(text_of(results));
    EXPECT_EQ(json["report"], nlohmann::json::parse(to_json(*results.report)));
    EXPECT_EQ(json["report"]["stored_bytes"], 7);
}

TEST(results, disk_bytes_are_what_came_in_between) {
    Results results;
    results.disk_before = DiskBytes{.read = 10, .written = 20};
    results.disk_after = DiskBytes{.read = 15, .written = 50};
    auto const json = nlohmann::json::parse(text_of(results));
    EXPECT_EQ(json["bytes_read"], 5);
    EXPECT_EQ(json["bytes_written"], 30);
}

TEST(progress, the_line_says_all_that_is_known) {
    StepNews news{
        .step = 12,
        .total = 50,
        .loss = 3.21449,
        .tokens_per_s = 1612.4,
        .seconds_left = 251.2,
        .device_peak_bytes = 642'000'000,
        .nvme_bytes_per_s = 8.4e8};
    EXPECT_EQ(
        line_of(news),
        "step 12/50 on cpu  loss 3.2145  1612 tokens/s  device peak 612.3 MiB  nvme 0.84 GB/s  "
        "4m12s left"
    );
    news.device_peak_bytes.reset();
    news.nvme_bytes_per_s.reset();
    news.seconds_left = 7000;
    news.device = "cuda:1";
    EXPECT_EQ(line_of(news), "step 12/50 on cuda:1  loss 3.2145  1612 tokens/s  1h56m left");
}

TEST(process_stats, this_process_has_a_size) {
    EXPECT_GT(resident_bytes().value_or(0), 1 << 20);
    EXPECT_GE(process_peak_bytes().value_or(0), resident_bytes().value_or(0) / 2);
}

}  // namespace
}  // namespace spillway::train
