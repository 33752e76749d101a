// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/history.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Histories, the_oldest_is_forgotten_where_there_are_many) {
    Histories histories(3);
    for (std::int64_t id = 0; id < 5; ++id) {
        histories.of(ValueId{id}).returned = id;
        histories.of(ValueId{id}).left = true;
    }
    ASSERT_EQ(histories.all().size(), 3U);
    EXPECT_EQ(histories.all().begin()->first, ValueId{2});
    EXPECT_EQ(histories.of(ValueId{4}).returned, 4);
    EXPECT_TRUE(histories.of(ValueId{4}).left);
}

}  // namespace
}  // namespace spillway
