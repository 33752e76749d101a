// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "timeline/timeline.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace spillway {
namespace {

Timeline one_store() {
    Timeline timeline;
    timeline.name = "one store";
    timeline.spans = {
        {Lane::compute, "forward", ValueId{}, 0, 0, 1500},
        {Lane::nvme_write, "store", ValueId{3}, 4096, 500, 2000},
        {Lane::compute, "stall", ValueId{}, 0, 1500, 2000}};
    timeline.memory = {{Pool::device, 0, 4096}, {Pool::nvme, 500, 4096}, {Pool::device, 2000, 0}};
    return timeline;
}

TEST(Timeline, text_gives_the_same_timeline) {
    Result<Timeline> const parsed = parse_timeline(to_json_text(one_store()));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message();
    EXPECT_EQ(*parsed, one_store());
}

TEST(Timeline, refuses_overlap_on_a_lane) {
    Timeline timeline = one_store();
    timeline.spans[2].start_ns = 1499;
    EXPECT_FALSE(validate(timeline).ok());
    timeline.spans[2].start_ns = 2001;
    EXPECT_FALSE(validate(timeline).ok());
}

TEST(Timeline, refuses_memory_that_goes_back_in_time) {
    Timeline timeline = one_store();
    timeline.memory.push_back({Pool::nvme, 499, 0});
    Result<void> const verdict = validate(timeline);
    ASSERT_FALSE(verdict.ok());
    EXPECT_EQ(verdict.error().message(), "timeline: memory step 3 goes back in time or below 0");
}

TEST(Timeline, chrome_trace_has_lanes_spans_and_counters) {
    nlohmann::json const trace =
        nlohmann::json::parse(to_chrome_trace(one_store()), nullptr, false);
    ASSERT_FALSE(trace.is_discarded());
    ASSERT_EQ(trace["traceEvents"].size(), kLanes + 3 + 3);
    nlohmann::json const& store = trace["traceEvents"][kLanes + 1];
    EXPECT_EQ(store["name"], "store 3");
    EXPECT_EQ(store["ts"], 0.5);
    EXPECT_EQ(store["dur"], 1.5);
    EXPECT_EQ(store["tid"], static_cast<int>(Lane::nvme_write));
    EXPECT_EQ(trace["traceEvents"].back()["ph"], "C");
}

}  // namespace
}  // namespace spillway
