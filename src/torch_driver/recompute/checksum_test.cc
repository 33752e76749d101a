// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recompute/checksum.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr std::int64_t kWords = 1 << 18;

c10::Storage storage_of_words(std::int64_t words) {
    return at::arange(words, at::kInt).storage();
}

TEST(Checksums, what_one_takes_is_known_once_measured) {
    Checksums checksums;
    EXPECT_EQ(checksums.ns_of(kWords), 0);
    checksums.measure(storage_of_words(kWords));
    std::int64_t const ns = checksums.ns_of(kWords * 4);
    EXPECT_GT(ns, 0);
    EXPECT_NEAR(static_cast<double>(checksums.ns_of(kWords * 8)), 2.0 * static_cast<double>(ns), 1);
}

TEST(Checksums, a_much_smaller_one_says_nothing_of_the_rate) {
    Checksums checksums;
    checksums.measure(storage_of_words(kWords));
    std::int64_t const ns = checksums.ns_of(kWords * 4);
    checksums.measure(storage_of_words(16));
    checksums.measure(storage_of_words(kWords / 2));
    EXPECT_EQ(checksums.ns_of(kWords * 4), ns);
}

}  // namespace
}  // namespace spillway
