// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/origin.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

struct SinBackward0 {};

TEST(OriginTest, a_name_is_the_nodes_class_without_its_namespace) {
    EXPECT_EQ((Origin{&typeid(SinBackward0), 0, 7}).name(), "SinBackward0");
    EXPECT_EQ(Origin{}.name(), "input");
}

TEST(SlotCounterTest, each_output_of_each_kind_of_node_is_counted_for_itself) {
    SlotCounter slots;
    Origin const first{&typeid(SinBackward0), 0, 1};
    Origin const second{&typeid(SinBackward0), 1, 1};
    EXPECT_EQ(slots.next(first), (Slot{"SinBackward0", 0, 0}));
    EXPECT_EQ(slots.next(first), (Slot{"SinBackward0", 0, 1}));
    EXPECT_EQ(slots.next(second), (Slot{"SinBackward0", 1, 0}));
    EXPECT_EQ(slots.next(Origin{}), (Slot{"input", 0, 0}));
}

TEST(SlotCounterTest, a_pass_counts_afresh) {
    SlotCounter slots;
    Origin const origin{&typeid(SinBackward0), 0, 1};
    (void)slots.next(origin);
    slots.begin_pass();
    EXPECT_EQ(slots.next(origin), (Slot{"SinBackward0", 0, 0}));
}

}  // namespace
}  // namespace spillway
