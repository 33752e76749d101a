// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/link_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace spillway {
namespace {

TEST(LinkQueue, alone_a_transfer_ends_when_it_took_its_time) {
    EXPECT_EQ(LinkQueue().end_with(5, 3), 8);
}

TEST(LinkQueue, one_waits_for_those_that_are_ready_before_it) {
    LinkQueue queue;
    queue.add(10, 4);
    EXPECT_EQ(queue.end_with(11, 2), 16);  // 10 to 14, 14 to 16
    EXPECT_EQ(queue.end_with(20, 2), 22);  // the link was idle between
    EXPECT_EQ(queue.end_with(9, 2), 15);   // it goes first
    EXPECT_EQ(queue.end_with(0, 2), 14);   // and is in nobody's way
}

TEST(LinkQueue, is_what_one_after_the_other_gives) {
    std::mt19937_64 random(3);
    for (int round = 0; round < 50; ++round) {
        LinkQueue queue;
        std::vector<std::pair<std::int64_t, std::int64_t>> all;
        for (int i = 0; i < 12; ++i) {
            auto const ready_ns = static_cast<std::int64_t>(random() % 40) - 20;
            auto const took_ns = static_cast<std::int64_t>(random() % 6);
            all.emplace_back(ready_ns, took_ns);
            std::stable_sort(all.begin(), all.end(), [](auto const& one, auto const& other) {
                return one.first < other.first;
            });
            std::int64_t end_ns = all.front().first;
            for (auto const& [ready, took] : all) {
                end_ns = std::max(end_ns, ready) + took;
            }
            ASSERT_EQ(queue.end_with(ready_ns, took_ns), end_ns);
            queue.add(ready_ns, took_ns);
        }
    }
}

}  // namespace
}  // namespace spillway
