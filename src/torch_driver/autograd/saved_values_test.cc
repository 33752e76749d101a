// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/saved_values.h"

#include <gtest/gtest.h>

#include <array>

namespace spillway {
namespace {

/// Storages are addresses here: nothing looks into them.
struct SavedValuesTest : testing::Test {
    [[nodiscard]] c10::StorageImpl* storage(std::size_t i) {
        return reinterpret_cast<c10::StorageImpl*>(&places.at(i));
    }

    std::array<std::max_align_t, 4> places{};
    SavedValues values;
};

TEST_F(SavedValuesTest, ids_are_dense_and_a_value_is_found_by_id_and_by_storage) {
    auto& [first, entry] = values.add(storage(0));
    EXPECT_EQ(first, ValueId{0});
    EXPECT_EQ(values.add(storage(1)).first, ValueId{1});
    EXPECT_EQ(values.find(first), &entry);
    EXPECT_EQ(&values.in(storage(0))->second, &entry);
    EXPECT_EQ(values.in(storage(2)), nullptr);
    EXPECT_EQ(values.find(ValueId{7}), nullptr);
}

TEST_F(SavedValuesTest, a_second_value_of_a_storage_takes_it_over) {
    ValueId const before = values.add(storage(0)).first;  // written in place since
    ValueId const now = values.add(storage(0)).first;
    EXPECT_EQ(values.in(storage(0))->first, now);
    values.unbind(before);
    EXPECT_EQ(values.in(storage(0))->first, now) << "the older one's end is not the newer one's";
    EXPECT_EQ(values.size(), 2U);
}

TEST_F(SavedValuesTest, what_came_back_is_found_under_its_new_storage) {
    ValueId const value = values.add(storage(0)).first;
    values.unbind(value);
    EXPECT_EQ(values.in(storage(0)), nullptr);
    EXPECT_EQ(values.find(value)->storage, nullptr);
    values.bind(value, storage(1));
    EXPECT_EQ(values.in(storage(1))->first, value);
    EXPECT_EQ(values.find(value)->storage, storage(1));
    values.unbind(value);
    values.erase(value);
    EXPECT_EQ(values.find(value), nullptr);
}

TEST_F(SavedValuesTest, each_stream_is_kept_once_in_the_order_of_first_use) {
    SavedValue& entry = values.add(storage(0)).second;
    for (int const number : {3, 5, 3}) {
        entry.add_stream({number});
    }
    EXPECT_EQ(entry.streams.size(), 2U);
    EXPECT_EQ(entry.streams.front(), StreamId{3});
}

}  // namespace
}  // namespace spillway
