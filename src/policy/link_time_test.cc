// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/link_time.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(LinkTime, what_hides_costs_nothing) {
    // 20 bytes move while the first point computes; 20 have to have.
    EXPECT_EQ(time_behind_link({{100, 0, 10}, {100, 20, 10}}, 2), 20);
    EXPECT_EQ(time_behind_link({}, 2), 0);
}

TEST(LinkTime, what_has_not_moved_is_waited_for) {
    EXPECT_EQ(time_behind_link({{100, 0, 10}, {100, 50, 10}}, 2), 10 + 15 + 10);
    EXPECT_EQ(time_behind_link({{0, 0, 10}, {30, 30, 10}}, 2), 10 + 15 + 10)
        << "nothing could move while the first one computed";
}

TEST(LinkTime, no_more_is_waited_for_than_can_move) {
    EXPECT_EQ(time_behind_link({{10, 50, 10}}, 1), 10 + 10);
}

}  // namespace
}  // namespace spillway
