// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/backlog.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace spillway {
namespace {

TEST(Backlog, hands_over_by_value_what_was_not_dropped) {
    Backlog backlog;
    for (std::int64_t const number : {1, 2, 5, 4, 7}) {  // two threads saved 4 and 5
        backlog.add({number}, 10 * number, {"made", 0, 0});
    }
    EXPECT_TRUE(backlog.drop({2}));
    EXPECT_FALSE(backlog.drop({2}));
    EXPECT_FALSE(backlog.drop({3}));
    EXPECT_EQ(backlog.size_bytes(), 170);
    std::vector<Backlog::Save> const left = backlog.take();
    ASSERT_EQ(left.size(), 4U);
    EXPECT_EQ(left[1].value, ValueId{4});
    EXPECT_EQ(left[1].size_bytes, 40);
    EXPECT_TRUE(backlog.empty());
    EXPECT_EQ(backlog.size_bytes(), 0);
}

TEST(Backlog, does_not_grow_while_one_save_stays) {
    Backlog backlog;
    backlog.add({0}, 1, {});
    for (std::int64_t number = 1; number < 10'000; number += 2) {
        backlog.add({number}, 1, {});
        backlog.add({number + 1}, 1, {});
        EXPECT_TRUE(backlog.drop({number}));
        EXPECT_TRUE(number == 1 || backlog.drop({number - 1}));
        ASSERT_LT(backlog.kept(), 100);
    }
}

TEST(Backlog, agrees_with_a_map_under_random_use) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        Backlog backlog;
        std::map<ValueId, std::int64_t> expected;
        for (std::int64_t number = 0; number < 300; ++number) {
            backlog.add({number}, number, {});
            expected[{number}] = number;
            ValueId const victim{static_cast<std::int64_t>(random() % 310)};
            EXPECT_EQ(backlog.drop(victim), expected.erase(victim) == 1);
        }
        std::vector<Backlog::Save> const left = backlog.take();
        ASSERT_EQ(left.size(), expected.size());
        for (Backlog::Save const& save : left) {
            EXPECT_EQ(expected.at(save.value), save.size_bytes);
        }
    }
}

}  // namespace
}  // namespace spillway
