// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/slab_table.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(SlabTableTest, without_a_slab_of_the_size_there_is_no_place) {
    SlabTable table;
    EXPECT_EQ(table.take(64).page, -1);
    table.add(7, 128);
    EXPECT_EQ(table.take(64).page, -1);
    EXPECT_EQ(table.take(128).page, 7);
}

TEST(SlabTableTest, a_slab_holds_as_many_blocks_as_fit_into_a_page) {
    for (std::int64_t const size_bytes : {64, 128, 192, 1024, 1984, 2048}) {
        SlabTable table;
        table.add(3, size_bytes);
        std::int64_t expected_offset = 0;
        for (std::int64_t i = 0; i < kArenaPageBytes / size_bytes; ++i) {
            SlabTable::Place const place = table.take(size_bytes);
            EXPECT_EQ(place.page, 3);
            EXPECT_EQ(place.offset_bytes, expected_offset);
            expected_offset += size_bytes;
        }
        EXPECT_EQ(table.take(size_bytes).page, -1) << size_bytes;
    }
}

TEST(SlabTableTest, a_freed_block_is_taken_again) {
    SlabTable table;
    table.add(3, 2048);
    SlabTable::Place const first = table.take(2048);
    SlabTable::Place const second = table.take(2048);
    EXPECT_FALSE(table.give_back(first));
    EXPECT_EQ(table.take(2048).offset_bytes, first.offset_bytes);
    EXPECT_EQ(table.size_of(second), 2048);
}

TEST(SlabTableTest, the_last_block_takes_the_slab_along) {
    SlabTable table;
    table.add(3, 64);
    SlabTable::Place const a = table.take(64);
    SlabTable::Place const b = table.take(64);
    EXPECT_FALSE(table.give_back(a));
    EXPECT_TRUE(table.give_back(b));
    EXPECT_EQ(table.take(64).page, -1);
    table.add(3, 2048);  // the page may serve another size now
    EXPECT_EQ(table.take(2048).page, 3);
}

TEST(SlabTableDeathTest, what_is_not_live_cannot_be_freed) {
    SlabTable table;
    table.add(3, 128);
    SlabTable::Place const place = table.take(128);
    EXPECT_DEATH((void)table.give_back({3, place.offset_bytes + 64}), "no live block");
    EXPECT_DEATH((void)table.give_back({3, place.offset_bytes + 128}), "no live block");
    EXPECT_DEATH((void)table.give_back({4, 0}), "no live block");
}

}  // namespace
}  // namespace spillway
