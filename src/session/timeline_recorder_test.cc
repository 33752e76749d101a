// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/timeline_recorder.h"

#include "test_paths.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace spillway {
namespace {

Span store(std::int64_t value) {
    Span span;
    span.lane = Lane::nvme_write;
    span.what = "store";
    span.value = ValueId{value};
    span.size_bytes = 4096;
    return span;
}

/// Nanoseconds from now.
Interval in(std::int64_t start_ns, std::int64_t end_ns) {
    std::int64_t const now_ns = steady_now_ns();
    return {now_ns + start_ns, now_ns + end_ns};
}

TEST(TimelineRecorder, times_count_from_its_opening) {
    TimelineRecorder recorder;
    recorder.stalled(StallCause::admission, in(1'000'000, 3'000'000));
    Timeline const timeline = recorder.timeline();
    ASSERT_EQ(timeline.spans.size(), 1U);
    EXPECT_EQ(timeline.spans[0].lane, Lane::compute);
    EXPECT_EQ(timeline.spans[0].text, "admission");
    EXPECT_GE(timeline.spans[0].start_ns, 1'000'000);
    EXPECT_LT(timeline.spans[0].start_ns, 60'000'000'000);
    EXPECT_EQ(timeline.spans[0].end_ns - timeline.spans[0].start_ns, 2'000'000);
}

TEST(TimelineRecorder, moves_under_way_at_once_make_a_valid_timeline) {
    TimelineRecorder recorder;
    recorder.moved(store(1), in(10'000, 500'000));
    recorder.moved(store(2), in(20'000, 400'000));
    recorder.used(Pool::device, 8192);
    recorder.used(Pool::device, 8192);
    recorder.mark("step 1, forward");
    Timeline const timeline = recorder.timeline();
    EXPECT_TRUE(validate(timeline).ok());
    EXPECT_EQ(timeline.spans.size(), 2U);
    EXPECT_EQ(timeline.spans[0].value, ValueId{2}) << "what ended first";
    EXPECT_EQ(timeline.memory.size(), 1U) << "nothing had changed";
    EXPECT_EQ(timeline.marks.size(), 1U);
}

TEST(TimelineRecorder, the_oldest_steps_go_when_there_is_too_much) {
    TimelineRecorder recorder(4);
    for (std::int64_t step = 0; step < 5; ++step) {
        recorder.begin_step();
        recorder.moved(store(10 * step), in(0, 1000));
        recorder.moved(store(10 * step + 1), in(0, 1000));
    }
    Timeline const timeline = recorder.timeline();
    ASSERT_EQ(timeline.spans.size(), 4U);
    EXPECT_EQ(timeline.spans.front().value, ValueId{30});
    EXPECT_EQ(timeline.spans.back().value, ValueId{41});
}

TEST(TimelineRecorder, one_step_that_is_too_long_ends) {
    TimelineRecorder recorder(3);
    for (std::int64_t i = 0; i < 5; ++i) {
        recorder.moved(store(i), in(0, 1000));
    }
    ASSERT_EQ(recorder.timeline().spans.size(), 3U);
    EXPECT_EQ(recorder.timeline().spans.back().value, ValueId{2});
}

TEST(TimelineRecorder, the_file_is_there_from_the_opening_and_filled_by_write) {
    std::filesystem::path const path =
        std::filesystem::path(build_folder()) / "timeline_recorder_test.json";
    TimelineRecorder recorder;
    ASSERT_TRUE(recorder.open(path).ok());
    recorder.mark("step 1, forward");
    ASSERT_TRUE(recorder.write().ok());
    std::ifstream stream(path);
    std::string const text{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_NE(text.find("step 1, forward"), std::string::npos) << text;
}

TEST(TimelineRecorder, a_file_that_cannot_be_is_named) {
    TimelineRecorder recorder;
    Result<void> const opened = recorder.open("/no/such/folder/trace.json");
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().message(), "/no/such/folder/trace.json: cannot write the timeline");
}

}  // namespace
}  // namespace spillway
