// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/families.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Families, what_shrinks_is_the_whole_family_and_no_other) {
    Families families;
    std::int64_t const one = families.begin();
    std::int64_t const other = families.begin();
    std::int64_t const stranger = families.begin();
    families.join(one, other);
    families.shrink(one);
    EXPECT_EQ(families.shrunk_at(one), families.now());
    EXPECT_EQ(families.shrunk_at(other), families.now());
    EXPECT_LT(families.shrunk_at(stranger), families.now());
}

TEST(Families, one_that_joins_brings_its_last_shrink) {
    Families families;
    std::int64_t const one = families.begin();
    std::int64_t const other = families.begin();
    families.shrink(one);
    families.join(one, other);
    EXPECT_EQ(families.shrunk_at(other), families.now());
    families.join(other, one);
    EXPECT_EQ(families.shrunk_at(one), families.now());
}

TEST(Families, all_end_at_once) {
    Families families;
    std::int64_t const old = families.begin();
    families.end_all();
    EXPECT_FALSE(families.exists(old));
    EXPECT_FALSE(families.exists(-1));
    EXPECT_EQ(families.shrunk_at(old), families.now());
    std::int64_t const next = families.begin();
    EXPECT_NE(next, old);
    EXPECT_TRUE(families.exists(next));
    EXPECT_EQ(families.shrunk_at(next), families.now());
}

}  // namespace
}  // namespace spillway
