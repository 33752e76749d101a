// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/journey.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Journeys, the_oldest_is_forgotten_where_there_are_many) {
    Journeys journeys(3);
    for (std::int64_t id = 0; id < 5; ++id) {
        journeys.of(ValueId{id}).returned = id;
        journeys.of(ValueId{id}).left = true;
    }
    ASSERT_EQ(journeys.all().size(), 3U);
    EXPECT_EQ(journeys.all().begin()->first, ValueId{2});
    EXPECT_EQ(journeys.of(ValueId{4}).returned, 4);
    EXPECT_TRUE(journeys.of(ValueId{4}).left);
}

}  // namespace
}  // namespace spillway
