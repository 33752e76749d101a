// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/chrome_trace.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace spillway {
namespace {

nlohmann::json events_of(Timeline const& timeline) {
    return nlohmann::json::parse(to_chrome_trace(timeline), nullptr, false)["traceEvents"];
}

Timeline one_store() {
    Timeline timeline;
    timeline.spans = {
        {Lane::nvme_write, "store", ValueId{3}, 4096, 500, 2500, 0, "saved tensor [1024]"},
        {Lane::compute, "stall", ValueId{}, 0, 1500, 2500, 0, "nvme"}};
    timeline.memory = {{Pool::device, 0, 4096}};
    return timeline;
}

TEST(ChromeTrace, every_lane_has_a_row_with_its_name) {
    nlohmann::json const events = events_of({});
    ASSERT_EQ(events.size(), kLanes);
    EXPECT_EQ(events[5]["ph"], "M");
    EXPECT_EQ(events[5]["tid"], static_cast<int>(Lane::nvme_read));
    EXPECT_EQ(events[5]["args"]["name"], "nvme_read");
}

TEST(ChromeTrace, a_move_is_a_complete_event_that_tells_value_bytes_and_rate) {
    nlohmann::json const store = events_of(one_store())[kLanes];
    EXPECT_EQ(store["name"], "store 3");
    EXPECT_EQ(store["ph"], "X");
    EXPECT_EQ(store["ts"], 0.5);
    EXPECT_EQ(store["dur"], 2.0);
    EXPECT_EQ(store["tid"], static_cast<int>(Lane::nvme_write));
    EXPECT_EQ(store["args"]["text"], "saved tensor [1024]");
    EXPECT_EQ(store["args"]["size_bytes"], 4096);
    EXPECT_EQ(store["args"]["gb_per_s"], 2.048);
}

TEST(ChromeTrace, a_rate_is_that_of_the_moves_own_time) {
    Timeline timeline = one_store();
    timeline.spans[0].took_ns = 4096;
    nlohmann::json const args = events_of(timeline)[kLanes]["args"];
    EXPECT_EQ(args["gb_per_s"], 1.0);
    EXPECT_EQ(args["took_us"], 4.096);
}

TEST(ChromeTrace, a_stall_is_named_by_its_cause_and_bytes_are_a_counter) {
    nlohmann::json const events = events_of(one_store());
    EXPECT_EQ(events[kLanes + 1]["name"], "stall nvme");
    EXPECT_EQ(events.back()["ph"], "C");
    EXPECT_EQ(events.back()["name"], "device bytes");
    EXPECT_EQ(events.back()["args"]["used_bytes"], 4096);
}

TEST(ChromeTrace, what_is_made_again_has_a_row_of_its_own) {
    Timeline timeline = one_store();
    timeline.spans.push_back({Lane::compute, "recompute", ValueId{4}, 512, 2500, 3000});
    nlohmann::json const events = events_of(timeline);
    EXPECT_EQ(events[kLanes]["args"]["name"], "recompute");
    EXPECT_EQ(events[kLanes + 2]["tid"], static_cast<int>(Lane::compute))
        << "stalls stay in theirs";
    EXPECT_EQ(events[kLanes + 3]["name"], "recompute 4");
    EXPECT_EQ(events[kLanes + 3]["tid"], events[kLanes]["tid"]);
    EXPECT_NE(events[kLanes]["tid"], static_cast<int>(kLanes)) << "which is that of the steps";
}

TEST(ChromeTrace, marks_fill_a_row_of_their_own) {
    Timeline timeline = one_store();
    timeline.marks = {{0, "step 1, forward"}, {1000, "step 1, backward"}};
    nlohmann::json const events = events_of(timeline);
    nlohmann::json const& forward = events[events.size() - 2];
    EXPECT_EQ(forward["name"], "step 1, forward");
    EXPECT_EQ(forward["tid"], kLanes);
    EXPECT_EQ(forward["dur"], 1.0);
    EXPECT_EQ(events.back()["dur"], 1.5) << "the last one lasts until the end of all";
}

}  // namespace
}  // namespace spillway
