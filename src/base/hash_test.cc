// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/hash.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <algorithm>
#include <vector>

namespace spillway {
namespace {

TEST(HashTest, is_the_published_xxh3_in_any_pieces) {
    std::vector<std::byte> bytes(5000);
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<std::byte>(i * 31);
    }
    std::uint64_t const whole = XXH3_64bits(bytes.data(), bytes.size());
    for (std::size_t const piece : {1U, 7U, 256U, 1024U, 5000U}) {
        Hash hash;
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
            hash.add({bytes.data() + at, std::min(piece, bytes.size() - at)});
        }
        EXPECT_EQ(hash.value(), whole) << piece;
    }
}

}  // namespace
}  // namespace spillway
