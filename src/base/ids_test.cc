// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/ids.h"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace spillway {
namespace {

// A block is never taken for a value.
static_assert(!std::is_convertible_v<BlockId, ValueId>);
static_assert(!std::is_convertible_v<ValueId, BlockId>);
static_assert(sizeof(ValueId) == sizeof(std::int64_t));

TEST(IdsTest, an_id_names_nothing_until_it_is_given) {
    EXPECT_FALSE(ValueId{}.valid());
    EXPECT_TRUE(ValueId{0}.valid());
    EXPECT_EQ(BlockId{7}.index(), 7U);
}

TEST(IdsTest, ids_compare_and_hash_by_number) {
    EXPECT_LT(ValueId{1}, ValueId{2});
    EXPECT_EQ(CommandId{3}, CommandId{3});
    std::unordered_set<ValueId> const seen{ValueId{1}, ValueId{2}, ValueId{1}};
    EXPECT_EQ(seen.size(), 2U);
    EXPECT_TRUE(seen.contains(ValueId{2}));
}

}  // namespace
}  // namespace spillway
