// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/extent_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>

namespace spillway {
namespace {

// Takes a block that must find a place.
std::int64_t took(ExtentMap& map, std::int64_t pages) {
    PagePlace const place = map.take(pages);
    EXPECT_GE(place.first, 0);
    return place.first;
}

TEST(ExtentMapTest, a_fresh_range_is_cold) {
    ExtentMap map(100, 8);
    PagePlace const place = map.take(3);
    EXPECT_EQ(place.first, 100);
    EXPECT_EQ(place.cold_pages(), 3);
    map.check();
}

TEST(ExtentMapTest, what_is_longer_than_the_range_has_no_place) {
    ExtentMap map(0, 8);
    EXPECT_EQ(map.take(9).first, -1);
    EXPECT_EQ(map.take(8).first, 0);
    EXPECT_EQ(map.take(1).first, -1);
}

TEST(ExtentMapTest, the_smallest_warm_run_that_fits_comes_first) {
    ExtentMap map(0, 100);
    std::int64_t const large = took(map, 5);
    static_cast<void>(took(map, 1));
    std::int64_t const small = took(map, 3);
    static_cast<void>(took(map, 1));
    map.give_back(large);
    map.give_back(small);

    PagePlace const place = map.take(2);
    EXPECT_EQ(place.first, small);
    EXPECT_EQ(place.cold_pages(), 0);
    map.check();
}

TEST(ExtentMapTest, a_warm_run_is_extended_by_cold_pages_beside_it) {
    ExtentMap map(0, 100);
    std::int64_t const warm = took(map, 6);
    map.give_back(warm);

    PagePlace const place = map.take(10);
    EXPECT_EQ(place.first, warm);
    EXPECT_EQ(place.cold_pages(), 4);
    map.check();
}

TEST(ExtentMapTest, a_warm_run_is_extended_downwards_where_it_cannot_grow_up) {
    ExtentMap map(0, 10);
    std::int64_t const low = took(map, 4);
    std::int64_t const middle = took(map, 2);
    static_cast<void>(took(map, 4));
    map.give_back(low);
    EXPECT_EQ(map.cool(4).size(), 1U);
    map.give_back(middle);

    PagePlace const place = map.take(5);
    EXPECT_EQ(place.first, 1);
    EXPECT_EQ(place.cold_pages(), 3);
    map.check();
}

TEST(ExtentMapTest, neighbours_merge_when_given_back_in_any_order) {
    ExtentMap map(0, 9);
    std::int64_t const a = took(map, 3);
    std::int64_t const b = took(map, 3);
    std::int64_t const c = took(map, 3);
    map.give_back(a);
    map.give_back(c);
    map.give_back(b);
    map.check();
    PagePlace const place = map.take(9);
    EXPECT_EQ(place.first, 0);
    EXPECT_EQ(place.cold_pages(), 0);
}

/// Two warm runs, of 3 and of 7 pages; nothing else is free.
struct TwoWarmRuns {
    ExtentMap map{0, 100};
    std::int64_t small = took(map, 3);
    std::int64_t between = took(map, 1);
    std::int64_t large = took(map, 7);

    TwoWarmRuns() {
        static_cast<void>(took(map, 89));
        map.give_back(small);
        map.give_back(large);
    }
};

TEST(ExtentMapTest, cooling_takes_from_the_smallest_run_that_has_enough) {
    TwoWarmRuns runs;
    EXPECT_EQ(runs.map.cool(2), (std::vector<PageRun>{{runs.small + 1, 2}}));
    runs.map.check();
    EXPECT_EQ(runs.map.take(7).first, runs.large) << "the larger one is whole";
}

TEST(ExtentMapTest, cooling_takes_as_much_as_asked) {
    TwoWarmRuns runs;
    EXPECT_EQ(runs.map.cool(4), (std::vector<PageRun>{{runs.large + 3, 4}}));
    runs.map.check();
    EXPECT_EQ(runs.map.take(3).cold_pages(), 0) << "the rest is warm";
}

TEST(ExtentMapTest, cooling_more_than_any_run_has_starts_with_the_largest) {
    TwoWarmRuns runs;
    EXPECT_EQ(runs.map.cool(8), (std::vector<PageRun>{{runs.large, 7}, {runs.small + 2, 1}}));
    runs.map.check();
}

TEST(ExtentMapTest, cooling_more_than_there_is_cools_all) {
    ExtentMap map(0, 10);
    std::int64_t const block = took(map, 4);
    map.give_back(block);
    EXPECT_EQ(map.cool(100), (std::vector<PageRun>{{block, 4}}));
    EXPECT_TRUE(map.cool(1).empty());
    map.check();
}

TEST(ExtentMapTest, scattered_warm_and_cold_pages_make_one_place_when_addresses_are_scarce) {
    ExtentMap map(0, 24);
    std::vector<std::int64_t> blocks;
    for (int i = 0; i < 24; ++i) {
        blocks.push_back(took(map, 1));
    }
    for (std::size_t i = 0; i < 24; i += 2) {  // twelve warm pages of one, then some cold
        map.give_back(blocks[i]);
    }
    static_cast<void>(map.cool(6));
    for (std::size_t i = 15; i < 24; i += 2) {
        map.give_back(blocks[i]);
    }
    map.check();
    EXPECT_EQ(map.take(11).first, -1);
    EXPECT_GE(map.take(10).first, 14);
    map.check();
}

TEST(ExtentMapDeathTest, giving_back_what_is_not_used_aborts) {
    ExtentMap map(0, 10);
    std::int64_t const block = took(map, 4);
    EXPECT_DEATH(map.give_back(block + 1), "no live block starts here");
    map.give_back(block);
    EXPECT_DEATH(map.give_back(block), "no live block starts here");
}

TEST(ExtentMapTest, random_use_keeps_the_books) {
    for (std::uint32_t const seed : {1U, 2U, 3U, 4U}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        std::mt19937 random(seed);
        ExtentMap map(0, 400);
        std::vector<PageRun> live;
        std::int64_t warm = 0;
        for (int i = 0; i < 2000; ++i) {
            std::int64_t const pages = 1 + static_cast<std::int64_t>(random() % 40);
            if (random() % 2 == 0) {
                if (PagePlace const place = map.take(pages); place.first >= 0) {
                    live.push_back({place.first, pages});
                    warm -= pages - place.cold_pages();
                }
            } else if (!live.empty()) {
                std::swap(live[random() % live.size()], live.back());
                EXPECT_EQ(map.give_back(live.back().first), live.back().pages);
                warm += live.back().pages;
                live.pop_back();
            }
            if (random() % 8 == 0) {
                std::int64_t cooled = 0;
                for (PageRun const& run : map.cool(pages)) {
                    cooled += run.pages;
                }
                EXPECT_EQ(cooled, std::min(pages, warm));
                warm -= cooled;
            }
            map.check();
        }
    }
}

}  // namespace
}  // namespace spillway
