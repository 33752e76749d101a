// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/extent_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <utility>
#include <vector>

namespace spillway {
namespace {

TEST(ExtentPoolTest, takes_the_first_hole_that_is_long_enough) {
    ExtentPool pool(100, 1);
    EXPECT_EQ(pool.take(30), 0);
    EXPECT_EQ(pool.take(30), 30);
    EXPECT_EQ(pool.take(40), 60);
    EXPECT_EQ(pool.take(1), std::nullopt);
    pool.give_back(0, 30);
    pool.give_back(60, 40);
    EXPECT_EQ(pool.take(31), 60);
    EXPECT_EQ(pool.take(10), 0);
}

TEST(ExtentPoolTest, neighbours_merge_whatever_the_order_of_return) {
    for (std::vector<std::int64_t> const& order :
         {std::vector<std::int64_t>{0, 1, 2}, {2, 1, 0}, {0, 2, 1}, {1, 0, 2}}) {
        ExtentPool pool(30, 1);
        for (int i = 0; i < 3; ++i) {
            ASSERT_TRUE(pool.take(10).has_value());
        }
        for (std::int64_t const i : order) {
            pool.give_back(10 * i, 10);
        }
        EXPECT_EQ(pool.longest_hole_bytes(), 30);
        EXPECT_EQ(pool.take(30), 0);
    }
}

TEST(ExtentPoolTest, sizes_are_rounded_to_the_unit) {
    ExtentPool pool(3 * 4096 + 100, 4096);
    EXPECT_EQ(pool.capacity_bytes(), 3 * 4096);
    EXPECT_EQ(pool.take(1), 0);
    EXPECT_EQ(pool.take(4097), 4096);
    EXPECT_EQ(pool.free_bytes(), 0);
    pool.give_back(4096, 4097);
    EXPECT_EQ(pool.free_bytes(), 8192);
}

TEST(ExtentPoolTest, nothing_fits_into_nothing_and_too_much_fits_nowhere) {
    ExtentPool empty(0, 4096);
    EXPECT_EQ(empty.take(1), std::nullopt);
    ExtentPool pool(4096, 4096);
    EXPECT_EQ(pool.take(4097), std::nullopt);
    EXPECT_EQ(pool.take(std::int64_t{1} << 62), std::nullopt);
    EXPECT_EQ(pool.free_bytes(), 4096);
}

TEST(ExtentPoolTest, random_use_never_overlaps_and_ends_whole) {
    std::mt19937_64 random(1);
    ExtentPool pool(1000, 1);
    std::vector<bool> used(1000, false);
    std::vector<std::pair<std::int64_t, std::int64_t>> held;
    auto const mark = [&used](std::int64_t first, std::int64_t size, bool value) {
        for (std::int64_t i = first; i < first + size; ++i) {
            ASSERT_NE(used[static_cast<std::size_t>(i)], value);
            used[static_cast<std::size_t>(i)] = value;
        }
    };
    for (int round = 0; round < 5000; ++round) {
        auto const size = static_cast<std::int64_t>(1 + random() % 90);
        std::optional<std::int64_t> const first =
            random() % 2 == 0 ? pool.take(size) : std::nullopt;
        if (first) {
            ASSERT_NO_FATAL_FAILURE(mark(*first, size, true));
            held.emplace_back(*first, size);
        } else if (!held.empty()) {
            std::swap(held[random() % held.size()], held.back());
            ASSERT_NO_FATAL_FAILURE(mark(held.back().first, held.back().second, false));
            pool.give_back(held.back().first, held.back().second);
            held.pop_back();
        }
    }
    for (auto const& [first, size] : held) {
        pool.give_back(first, size);
    }
    EXPECT_EQ(pool.longest_hole_bytes(), 1000);
}

TEST(ExtentPoolDeathTest, returning_twice_aborts) {
    ExtentPool pool(100, 1);
    ASSERT_EQ(pool.take(10), 0);
    pool.give_back(0, 10);
    EXPECT_DEATH(pool.give_back(0, 10), "given back twice");
}

}  // namespace
}  // namespace spillway
