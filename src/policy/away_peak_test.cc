// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/away_peak.h"

#include "policy/chain_test.h"
#include "policy/transfer_times.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace spillway {
namespace {

void expect_the_same_for_each_more(Trace const& trace, std::size_t stride) {
    StepView const step(trace);
    AwayPeak peak(step);
    std::vector<ValueId> away;
    EXPECT_EQ(peak.peak_bytes(), peak_without(step, away));
    for (std::size_t i = 0, at = 0; i < step.values.size(); ++i) {
        at = (at + stride) % step.values.size();  // all of them where that has no common divisor
        ValueId const id{static_cast<std::int64_t>(at)};
        if (step.values[at].can_move()) {
            away.push_back(id);
            peak.add(id);
        }
        EXPECT_EQ(peak.peak_bytes(), peak_without(step, away)) << i;
    }
}

TEST(AwayPeak, is_what_a_look_at_the_whole_step_says) {
    expect_the_same_for_each_more(chain(1), 1);
    expect_the_same_for_each_more(chain(23), 7);
    expect_the_same_for_each_more(blocks(13), 5);
}

TEST(AwayPeak, counts_a_value_as_often_as_a_point_lists_it) {
    Trace trace = chain(4);
    trace.points[1].unshared.push_back(ValueId{0});
    trace.points.back().needed.push_back(ValueId{0});
    expect_the_same_for_each_more(trace, 1);
}

TEST(AwayPeak, of_a_step_without_points_is_0) {
    Trace const empty{.name = "empty", .values = {}, .points = {}};
    StepView const step(empty);
    EXPECT_EQ(AwayPeak(step).peak_bytes(), 0);
}

}  // namespace
}  // namespace spillway
