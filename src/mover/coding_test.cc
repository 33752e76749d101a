// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/coding.h"

#include "base/units.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace spillway {
namespace {

Codec codec_of(char const* text) {
    return parse_codec(text).value();
}

std::vector<float> waves(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = std::sin(static_cast<float>(i) * 0.37F) * static_cast<float>(1 + i % 7);
    }
    return values;
}

/// The relative error of all elements, as whoever decodes them sees it.
double true_error(Encoding const& encoding, std::vector<float> const& values, std::uint64_t seed) {
    std::vector<std::byte> coded(static_cast<std::size_t>(encoded_bytes(encoding).value()));
    std::vector<float> back(values.size());
    EXPECT_TRUE(encode(encoding, std::as_bytes(std::span(values)), coded, seed).ok());
    EXPECT_TRUE(decode(encoding, coded, std::as_writable_bytes(std::span(back))).ok());
    double errors = 0;
    double squares = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
        errors += std::pow(double{back[i]} - double{values[i]}, 2);
        squares += std::pow(double{values[i]}, 2);
    }
    return std::sqrt(errors / squares);
}

TEST(CodingTest, the_sampled_error_is_about_the_true_one) {
    std::vector<float> const values = waves(400'000);
    for (char const* const text :
         {"affine4", "affine2:group=64", "affine8:absmax,stochastic", "fp8_e4m3", "nf4"}) {
        Encoding const encoding{codec_of(text), Dtype::f32, std::ssize(values)};
        SquareSums const sums = sample_error(encoding, std::as_bytes(std::span(values)), 7);
        double const sampled = std::sqrt(sums.of_errors / sums.of_values);
        EXPECT_GT(sampled, 0) << text;
        EXPECT_NEAR(sampled / true_error(encoding, values, 7), 1, 0.1) << text;
    }
}

TEST(CodingTest, of_a_small_tensor_its_first_elements_are_looked_at) {
    for (std::int64_t const count : {1, 31, 1024, 1025, 5000}) {
        std::vector<float> const values = waves(count);
        Encoding const encoding{codec_of("affine4"), Dtype::f32, count};
        SquareSums const sums = sample_error(encoding, std::as_bytes(std::span(values)), 7);
        double squares = 0;
        for (std::size_t i = 0; i < values.size() && i < 1024; ++i) {
            squares += double{values[i]} * double{values[i]};
        }
        EXPECT_DOUBLE_EQ(sums.of_values, squares) << count;
    }
}

TEST(CodingTest, halves_are_read_as_what_they_are) {
    std::vector<std::uint16_t> const bf16{0x3f80, 0xc000, 0x0000, 0x4040};  // 1, -2, 0, 3
    std::vector<std::uint16_t> const f16{0x3c00, 0xc000, 0x0001, 0x4200};   // 1, -2, 2^-24, 3
    for (auto const& [dtype, values] : {std::pair{Dtype::bf16, bf16}, {Dtype::f16, f16}}) {
        Encoding const encoding{codec_of("affine8"), dtype, 4};
        SquareSums const sums = sample_error(encoding, std::as_bytes(std::span(values)), 7);
        EXPECT_NEAR(sums.of_values, 14, 1e-6) << name_of(dtype);
        EXPECT_LT(sums.of_errors, 1e-3) << name_of(dtype);
    }
}

TEST(CodingTest, nothing_is_lost_by_exact_codecs_and_by_sign) {
    std::vector<float> const values = waves(5000);
    for (char const* const text : {"identity", "lossless", "mask", "sign"}) {
        Encoding const encoding{codec_of(text), Dtype::f32, std::ssize(values)};
        SquareSums const sums = sample_error(encoding, std::as_bytes(std::span(values)), 7);
        EXPECT_EQ(sums.of_errors, 0) << text;
        EXPECT_EQ(sums.of_values, 0) << text;
    }
}

TEST(CodingTest, every_label_and_codec_has_counters_of_its_own) {
    CodingTally tally;
    BlockCode const one{{codec_of("affine4"), Dtype::f32, 10}, 1, "norm_input"};
    BlockCode other = one;
    other.label = "linear_input";
    BlockCode third = one;
    third.encoding.codec.bits = 8;
    BlockCode same = one;
    same.encoding.count = 20;
    tally.of(one).values = 1;
    tally.of(other).values = 2;
    tally.of(third).values = 3;
    EXPECT_EQ(tally.of(same).values, 1);
    ASSERT_EQ(tally.all().size(), 3U);
    EXPECT_EQ(tally.all()[1].label, "linear_input");
    EXPECT_EQ(tally.all()[2].codec.bits, 8);
}

TEST(CodingTest, one_way_never_takes_the_room_of_the_other) {
    HostMemory const memory = map_host_memory(64_KiB).value();
    CodedStaging staging(memory, nullptr);
    EXPECT_EQ(staging.most_bytes(), 32_KiB);
    std::span<std::byte> const out = staging.take(Direction::store, 32_KiB);
    ASSERT_EQ(std::ssize(out), 32_KiB);
    EXPECT_TRUE(staging.take(Direction::store, 1).empty());
    std::span<std::byte> const in = staging.take(Direction::load, 32_KiB);
    ASSERT_EQ(std::ssize(in), 32_KiB);
    EXPECT_GE(std::abs(in.data() - out.data()), 32_KiB) << "they do not overlap";
    staging.give_back(Direction::store, out);
    EXPECT_TRUE(staging.take(Direction::load, 1).empty());
    EXPECT_EQ(staging.take(Direction::store, 5000).size(), 5000U);
    EXPECT_EQ(staging.used_bytes(), 32_KiB + 8_KiB) << "whole pages";
}

TEST(CodingTest, no_memory_is_room_for_nothing) {
    HostMemory const none;
    CodedStaging staging(none, nullptr);
    EXPECT_EQ(staging.most_bytes(), 0);
    EXPECT_TRUE(staging.take(Direction::store, 1).empty());
}

}  // namespace
}  // namespace spillway
