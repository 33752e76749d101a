// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/waits_for_returns.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

using Waits = std::map<ValueId, std::int64_t>;

TEST(WaitsForReturns, are_kept_only_where_somebody_asks) {
    WaitsForReturns waits;
    waits.begins(CommandId{1}, ValueId{7});
    waits.waited(ValueId{7}, 5);
    waits.waited(CommandId{1}, 5);
    EXPECT_TRUE(waits.take().empty());
    waits.keep(true);
    waits.waited(ValueId{7}, 5);
    waits.keep(false);
    EXPECT_TRUE(waits.take().empty());
}

TEST(WaitsForReturns, those_of_the_host_and_of_streams_add_up_by_value) {
    WaitsForReturns waits;
    waits.keep(true);
    waits.begins(CommandId{1}, ValueId{7});
    waits.begins(CommandId{2}, ValueId{8});
    waits.waited(ValueId{7}, 5);
    waits.waited(ValueId{8}, 0);
    waits.waited(CommandId{1}, 3);
    waits.waited(CommandId{1}, 2);
    waits.waited(CommandId{9}, 100);  // a store
    EXPECT_EQ(waits.take(), (Waits{{ValueId{7}, 10}}));
    EXPECT_TRUE(waits.take().empty());
}

TEST(WaitsForReturns, a_stream_may_be_a_step_late_and_no_more) {
    WaitsForReturns waits;
    waits.keep(true);
    waits.begins(CommandId{1}, ValueId{7});
    EXPECT_TRUE(waits.take().empty());
    waits.waited(CommandId{1}, 3);
    EXPECT_EQ(waits.take(), (Waits{{ValueId{7}, 3}}));
    waits.waited(CommandId{1}, 3);
    EXPECT_TRUE(waits.take().empty());
}

}  // namespace
}  // namespace spillway
