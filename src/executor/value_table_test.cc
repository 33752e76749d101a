// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/value_table.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

class ValueTableTest : public testing::Test {
  protected:
    template <typename Change>
    void alter(Change&& change) {
        table_.alter(id_, *table_.find(id_), change);
    }
    /// The views that the value is in: storable, last resort, droppable, absent, orphans.
    void expect_in(int storable, int last_resort, int droppable, int absent, int orphans) {
        EXPECT_EQ(table_.storable().size(), static_cast<std::size_t>(storable));
        EXPECT_EQ(table_.last_resort().size(), static_cast<std::size_t>(last_resort));
        EXPECT_EQ(table_.droppable().size(), static_cast<std::size_t>(droppable));
        EXPECT_EQ(table_.absent().size(), static_cast<std::size_t>(absent));
        EXPECT_EQ(table_.orphans().size(), static_cast<std::size_t>(orphans));
    }

    ValueId const id_{7};
    ValueTable table_;
    Value& value_ = table_.add(id_, Value{.size_bytes = 4096});
};

TEST_F(ValueTableTest, a_value_follows_its_state_from_view_to_view) {
    expect_in(0, 0, 0, 0, 0);  // something else holds it
    alter([](Value& v) { v.unshared = true; });
    expect_in(1, 0, 0, 0, 0);
    alter([](Value& v) { v.copy.emplace(); });
    expect_in(0, 0, 1, 0, 0);
    alter([](Value& v) { v.on_device = false; });
    expect_in(0, 0, 0, 1, 0);
    alter([](Value& v) { v.way_back.emplace(); });
    expect_in(0, 0, 1, 0, 0);
    alter([](Value& v) { v.orphan = true; });
    expect_in(0, 0, 0, 0, 1);
    table_.erase(id_);
    expect_in(0, 0, 0, 0, 0);
}

TEST_F(ValueTableTest, advice_says_when_a_value_may_be_stored) {
    alter([](Value& v) {
        v.unshared = true;
        v.choice.advice = Advice::last_resort;
    });
    expect_in(0, 1, 0, 0, 0);
    alter([](Value& v) { v.choice.advice = Advice::never; });
    expect_in(0, 0, 0, 0, 0);
    alter([](Value& v) { v.choice.advice = Advice::at_once; });
    expect_in(1, 0, 0, 0, 0);
    EXPECT_EQ(table_.about_to_leave(), 1);
}

TEST_F(ValueTableTest, bytes_are_counted_while_the_device_has_them) {
    EXPECT_EQ(table_.held_bytes(), 4096);
    alter([](Value& v) { v.copy.emplace(); });
    alter([](Value& v) { v.on_device = false; });
    EXPECT_EQ(table_.held_bytes(), 0);
    alter([](Value& v) { v.way_back.emplace(); });
    EXPECT_EQ(table_.held_bytes(), 4096);
    EXPECT_EQ(table_.droppable_bytes(), 4096);
}

}  // namespace
}  // namespace spillway
