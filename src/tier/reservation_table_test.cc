// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/reservation_table.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(ReservationTableTest, an_entry_can_be_loaded_only_after_a_store_that_ended_well) {
    ReservationTable table;
    std::int64_t const entry = table.add(0, 100, 4096, 1);
    EXPECT_FALSE(table.begin(entry, Direction::load, 100).ok());
    ASSERT_TRUE(table.begin(entry, Direction::store, 100).ok());
    table.end(entry, Direction::store, false);
    EXPECT_FALSE(table.begin(entry, Direction::load, 100).ok());
    ASSERT_TRUE(table.begin(entry, Direction::store, 100).ok());
    table.end(entry, Direction::store, true);
    ASSERT_TRUE(table.begin(entry, Direction::load, 100).ok());
    table.end(entry, Direction::load, true);
    EXPECT_EQ(table.counters().stored_bytes, 100);
    EXPECT_EQ(table.counters().loaded_bytes, 100);
    table.remove(entry);
}

TEST(ReservationTableTest, a_number_that_is_used_again_starts_fresh) {
    ReservationTable table;
    std::int64_t const first = table.add(0, 100, 4096, 1);
    ASSERT_TRUE(table.begin(first, Direction::store, 100).ok());
    table.end(first, Direction::store, true);
    EXPECT_EQ(table.remove(first).size_bytes, 100);
    std::int64_t const second = table.add(8192, 50, 4096, 1);
    EXPECT_EQ(first, second);
    EXPECT_FALSE(table.begin(second, Direction::load, 50).ok());
    EXPECT_EQ(table.remove(second).first, 8192);
    EXPECT_EQ(table.counters().used_bytes, 0);
    EXPECT_EQ(table.counters().peak_used_bytes, 4096);
}

TEST(ReservationTableTest, counts_afresh_but_for_what_is_reserved) {
    ReservationTable table;
    std::int64_t const entry = table.add(0, 100, 4096, 1);
    std::int64_t const other = table.add(4096, 100, 4096, 1);
    ASSERT_TRUE(table.begin(entry, Direction::store, 100).ok());
    table.end(entry, Direction::store, true);
    table.remove(other);
    table.count_afresh();
    EXPECT_EQ(table.counters(), (TierCounters{.used_bytes = 4096, .peak_used_bytes = 4096}));
    table.remove(entry);
    EXPECT_EQ(table.counters().used_bytes, 0);
}

TEST(ReservationTableDeathTest, an_entry_in_use_is_not_handed_back) {
    ReservationTable table;
    std::int64_t const entry = table.add(0, 100, 4096, 1);
    ASSERT_TRUE(table.begin(entry, Direction::store, 100).ok());
    EXPECT_DEATH(table.remove(entry), "must outlive");
    EXPECT_DEATH(static_cast<void>(table.begin(entry, Direction::load, 100)), "before its store");
    table.end(entry, Direction::store, true);
    EXPECT_DEATH(static_cast<void>(table.begin(entry, Direction::load, 99)), "what was stored");
    EXPECT_DEATH(static_cast<void>(table.begin(entry, Direction::store, 101)), "fits its");
    EXPECT_DEATH(static_cast<void>(table.begin(entry, Direction::store, 0)), "at least one");
}

TEST(ReservationTableTest, a_block_may_be_shorter_than_its_entry_and_counts_its_own_bytes) {
    ReservationTable table;
    std::int64_t const entry = table.add(0, 100, 4096, 1);
    ASSERT_TRUE(table.begin(entry, Direction::store, 60).ok());
    table.end(entry, Direction::store, true);
    ASSERT_TRUE(table.begin(entry, Direction::load, 60).ok());
    table.end(entry, Direction::load, true);
    EXPECT_EQ(table.counters().stored_bytes, 60);
    EXPECT_EQ(table.counters().loaded_bytes, 60);
    EXPECT_EQ(table.counters().used_bytes, 4096);
    EXPECT_EQ(table.remove(entry).size_bytes, 100);
}

}  // namespace
}  // namespace spillway
