// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/checksum.h"

#include <gtest/gtest.h>
#include <xxhash.h>

#include <random>

namespace spillway {
namespace {

TEST(ChecksumTest, is_the_published_xxh3_at_every_length) {
    std::vector<std::byte> bytes(5000);
    std::mt19937 random(1);
    for (std::byte& byte : bytes) {
        byte = static_cast<std::byte>(random());
    }
    EXPECT_EQ(checksum_of({}), 0x2d06800538d394c2U);  // of no bytes, from the specification
    for (std::size_t size : {0U, 1U, 16U, 63U, 240U, 241U, 1024U, 5000U}) {
        EXPECT_EQ(checksum_of({bytes.data(), size}), XXH3_64bits(bytes.data(), size));
    }
}

TEST(ChecksumTest, every_single_bit_of_a_block_matters) {
    std::vector<std::byte> bytes(300, std::byte{0});
    std::uint64_t const whole = checksum_of(bytes);
    for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
        EXPECT_NE(checksum_of(bytes), whole);
        bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    }
}

TEST(ChecksumTest, a_bad_piece_is_named_by_place_and_offset) {
    std::vector<std::byte> const from(3'000'000, std::byte{7});
    std::vector<std::byte> kept(from.size());
    std::vector<std::byte> to(from.size());
    std::vector<std::uint64_t> sums(3);
    copy_and_sum(from, kept.data(), sums);
    EXPECT_TRUE(copy_and_check(kept, to.data(), sums, "there", 0).ok());
    EXPECT_EQ(from, to);
    kept[2'500'000] ^= std::byte{1};
    Result<void> const checked = copy_and_check(kept, to.data(), sums, "there", 10);
    ASSERT_FALSE(checked.ok());
    EXPECT_EQ(checked.error().code, Errc::corrupt);
    EXPECT_EQ(checked.error().where, "there, offset 2097162");
}

TEST(ChecksumTest, pieces_cover_a_block) {
    EXPECT_EQ(pieces_of(1, 4096), 1);
    EXPECT_EQ(pieces_of(4096, 4096), 1);
    EXPECT_EQ(pieces_of(4097, 4096), 2);
}

}  // namespace
}  // namespace spillway
