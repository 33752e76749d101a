// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/random.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

// The generator's first numbers from seed 1234567, as published with its reference code: its state
// grows by the same constant each time.
TEST(RandomTest, is_splitmix64) {
    constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15U;
    EXPECT_EQ(mixed(1234567), 6457827717110365317U);
    EXPECT_EQ(mixed(1234567 + kStep), 3203168211198807973U);
    EXPECT_EQ(mixed(1234567 + 2 * kStep), 9817491932198370423U);
}

}  // namespace
}  // namespace spillway
