// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/unshared_tracker.h"

#include <gtest/gtest.h>

#include <array>
#include <set>

namespace spillway {
namespace {

using Values = std::vector<ValueId>;

struct UnsharedTrackerTest : testing::Test {
    /// A value of 10 bytes.
    ValueId saved() {
        auto& [value, entry] = values.add(reinterpret_cast<c10::StorageImpl*>(&places.at(used++)));
        entry.size_bytes = 10;
        tracker.add(value);
        return value;
    }
    [[nodiscard]] Values newly_unshared(std::size_t at_most = 8) {
        return tracker.newly_unshared(at_most);
    }

    std::array<std::max_align_t, 200> places{};
    std::size_t used = 0;
    SavedValues values;
    std::set<SavedValue const*> shared;
    int looks = 0;
    UnsharedTracker tracker{values, [this](SavedValue const& entry) {
                                ++looks;
                                return shared.count(&entry) == 0;
                            }};
};

TEST_F(UnsharedTrackerTest, a_value_is_told_once_when_nothing_else_holds_it) {
    ValueId const value = saved();
    shared.insert(values.find(value));
    EXPECT_EQ(newly_unshared(), Values{});
    shared.clear();
    EXPECT_EQ(newly_unshared(), Values{value});
    EXPECT_EQ(newly_unshared(), Values{});
    EXPECT_EQ(tracker.could_leave_bytes(), 10);
}

TEST_F(UnsharedTrackerTest, each_call_goes_on_where_the_last_one_ended) {
    Values const all{saved(), saved(), saved()};
    shared.insert(values.find(all[0]));
    EXPECT_EQ(newly_unshared(1), Values{});
    EXPECT_EQ(newly_unshared(1), Values{all[1]});
    EXPECT_EQ(newly_unshared(2), Values{all[2]}) << "then it begins again";
    EXPECT_EQ(looks, 4);
}

TEST_F(UnsharedTrackerTest, where_all_are_looked_at_they_are_told_in_the_order_of_their_saves) {
    Values const all{saved(), saved(), saved(), saved()};
    for (ValueId const value : all) {
        shared.insert(values.find(value));
    }
    EXPECT_EQ(newly_unshared(2), Values{});
    shared.clear();
    EXPECT_EQ(newly_unshared(), all);
}

TEST_F(UnsharedTrackerTest, what_was_handed_out_is_told_again_when_that_has_gone) {
    ValueId const value = saved();
    EXPECT_EQ(newly_unshared(), Values{value});
    tracker.is_in_use(value, *values.find(value));
    tracker.handed_out(value);
    tracker.handed_out(value);
    shared.insert(values.find(value));
    EXPECT_EQ(tracker.could_leave_bytes(), 0);
    EXPECT_EQ(newly_unshared(), Values{});
    shared.clear();
    EXPECT_EQ(newly_unshared(), Values{value});
    EXPECT_EQ(newly_unshared(), Values{});
}

TEST_F(UnsharedTrackerTest, what_is_away_or_has_gone_is_neither_told_nor_counted) {
    ValueId const away = saved();
    ValueId const gone = saved();
    values.unbind(away);
    values.unbind(gone);
    values.erase(gone);
    EXPECT_EQ(newly_unshared(), Values{});
    tracker.see_all();
    EXPECT_EQ(tracker.could_leave_bytes(), 0);
    EXPECT_EQ(looks, 0);
}

TEST_F(UnsharedTrackerTest, bytes_are_seen_without_being_told) {
    ValueId const value = saved();
    tracker.see_all();
    EXPECT_EQ(tracker.could_leave_bytes(), 10);
    tracker.is_in_use(value, *values.find(value));
    values.unbind(value);
    tracker.see_all();
    EXPECT_EQ(tracker.could_leave_bytes(), 0);
    values.bind(value, reinterpret_cast<c10::StorageImpl*>(&places.back()));
    tracker.came_back(value);
    tracker.see_all();
    EXPECT_EQ(tracker.could_leave_bytes(), 10);
    EXPECT_EQ(newly_unshared(), Values{value});
}

TEST_F(UnsharedTrackerTest, values_that_end_while_nobody_asks_are_forgotten) {
    for (int i = 0; i < 150; ++i) {
        ValueId const value = saved();
        values.unbind(value);
        values.erase(value);
    }
    EXPECT_EQ(newly_unshared(1000), Values{});
    EXPECT_EQ(looks, 0);
}

}  // namespace
}  // namespace spillway
