// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/schedule.h"

#include <gtest/gtest.h>

namespace spillway::train {
namespace {

TEST(schedule, warm_up_rises_in_equal_parts_and_reaches_the_peak) {
    Schedule const schedule{.peak = 1.0, .warmup_steps = 4, .total_steps = 100};
    EXPECT_DOUBLE_EQ(rate_at(schedule, 0), 0.25);
    EXPECT_DOUBLE_EQ(rate_at(schedule, 1), 0.50);
    EXPECT_DOUBLE_EQ(rate_at(schedule, 3), 1.0);
    EXPECT_DOUBLE_EQ(rate_at(schedule, 4), 1.0);
}

TEST(schedule, half_way_is_half_way_between_peak_and_floor) {
    Schedule const schedule{.peak = 2.0, .warmup_steps = 0, .total_steps = 100};
    EXPECT_DOUBLE_EQ(rate_at(schedule, 50), 2.0 * 0.55);
}

TEST(schedule, ends_at_a_tenth_and_stays_there) {
    Schedule const schedule{.peak = 1.0, .warmup_steps = 2, .total_steps = 10};
    EXPECT_DOUBLE_EQ(rate_at(schedule, 10), 0.1);
    EXPECT_DOUBLE_EQ(rate_at(schedule, 1000), 0.1);
}

TEST(schedule, a_run_shorter_than_its_warm_up_only_rises) {
    Schedule const schedule{.peak = 1.0, .warmup_steps = 10, .total_steps = 5};
    EXPECT_DOUBLE_EQ(rate_at(schedule, 4), 0.5);
    EXPECT_DOUBLE_EQ(rate_at(schedule, 10), 1.0);
}

}  // namespace
}  // namespace spillway::train
