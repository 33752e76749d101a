// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "timeline/timeline.h"

#include <gtest/gtest.h>

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

TEST(Timeline, marks_own_times_and_texts_are_in_the_text) {
    Timeline timeline = one_store();
    timeline.marks = {{0, "step 1, forward"}, {1500, "step 1, backward"}};
    timeline.spans[1].took_ns = 1700;
    timeline.spans[1].text = "saved tensor [4, 256]";
    Result<Timeline> const parsed = parse_timeline(to_json_text(timeline));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message();
    EXPECT_EQ(*parsed, timeline);
}

TEST(Timeline, refuses_marks_out_of_order_and_spans_that_took_less_than_they_lasted) {
    Timeline timeline = one_store();
    timeline.marks = {{10, "step 1, forward"}, {9, "step 1, backward"}};
    EXPECT_EQ(validate(timeline).error().message(), "timeline: mark 1 goes back in time");
    timeline.marks.clear();
    timeline.spans[1].took_ns = 1499;
    EXPECT_FALSE(validate(timeline).ok());
}

TEST(Timeline, what_was_under_way_at_once_is_lined_up) {
    Timeline measured;
    measured.spans = {
        {Lane::nvme_write, "store", ValueId{2}, 10, 200, 500},
        {Lane::nvme_write, "store", ValueId{1}, 10, 100, 400},
        {Lane::compute, "stall", ValueId{}, 0, 300, 400},
        {Lane::compute, "stall", ValueId{}, 0, 300, 400}};
    measured.memory = {{Pool::device, 7, 1}, {Pool::device, -3, 2}};
    Timeline const timeline = lined_up(measured);
    ASSERT_TRUE(validate(timeline).ok());
    Timeline expected;
    expected.spans = {
        {Lane::nvme_write, "store", ValueId{1}, 10, 100, 400},
        {Lane::compute, "stall", ValueId{}, 0, 300, 400},
        {Lane::nvme_write, "store", ValueId{2}, 10, 400, 500, 300}};
    expected.memory = {{Pool::device, 0, 2}, {Pool::device, 7, 1}};
    EXPECT_EQ(to_json_text(timeline), to_json_text(expected));
}

}  // namespace
}  // namespace spillway
