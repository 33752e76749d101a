// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/encodings.h"

#include "session/loop_parts.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

constexpr std::int64_t kFloats = 64 * 1024;

SavedAs as(char const* codec, std::int64_t elements = kFloats) {
    return {Encoding{parse_codec(codec).value(), Dtype::f32, elements}, Advice::when_asked};
}

TEST(Encodings, what_would_take_no_fewer_bytes_or_is_a_part_of_a_value_goes_as_it_is) {
    Parts parts;
    ValueId const value{0};
    EXPECT_TRUE(parts.encodings.possible(as("affine4"), value, 256_KiB).encoding);
    EXPECT_FALSE(parts.encodings.possible(as("affine4", kFloats / 2), value, 256_KiB).encoding);
    EXPECT_FALSE(parts.encodings.possible(as("affine4", 64 * kFloats), value, 16_MiB).encoding)
        << "longer than the staging";
    EXPECT_FALSE(parts.encodings.possible({}, value, 256_KiB).encoding);
}

TEST(Encodings, seeds_are_equal_in_equal_steps) {
    Parts parts;
    std::vector<std::uint64_t> seeds;
    for (std::int64_t const first : {10, 50}) {
        parts.encodings.begin_step(3);
        for (std::int64_t i = 0; i < 2; ++i) {
            seeds.push_back(
                parts.encodings.possible(as("affine4"), ValueId{first + i}, 256_KiB).seed
            );
        }
    }
    EXPECT_EQ(seeds[0], seeds[2]);
    EXPECT_EQ(seeds[1], seeds[3]);
    EXPECT_NE(seeds[0], seeds[1]);
}

TEST(Encodings, a_value_goes_raw_once_and_what_is_exact_never_has_to) {
    Parts parts;
    for (auto const& [number, codec] : {std::pair(0, "affine4"), std::pair(1, "lossless")}) {
        Saved const saved = parts.encodings.event_of(
            {.value = ValueId{number}, .size_bytes = 256_KiB, .slot = {}, .as = as(codec)}, {}
        );
        EXPECT_GT(saved.encoded_bytes, 0);
    }
    EXPECT_TRUE(parts.encodings.goes_raw(ValueId{0}));
    EXPECT_FALSE(parts.encodings.goes_raw(ValueId{0}));
    EXPECT_EQ(parts.encodings.away_bytes_of(ValueId{0}), 0);
    EXPECT_FALSE(parts.encodings.goes_raw(ValueId{1}));
    EXPECT_TRUE(parts.encodings.of(ValueId{1}).has_value());
}

TEST(Encodings, a_refused_value_fails_its_need_where_that_is_asked_for) {
    for (NonFinite const non_finite : {NonFinite::keep, NonFinite::refuse}) {
        Parts parts(non_finite);
        ValueId const value{7};
        (void)parts.encodings.event_of(
            {.value = value, .size_bytes = 256_KiB, .slot = {}, .as = as("affine4")}, {}
        );
        parts.encodings.refused(value, Error{Errc::unsupported, "NaN", ""});
        bool const fails = non_finite == NonFinite::refuse;
        EXPECT_EQ(parts.encodings.any_refused(), fails);
        EXPECT_EQ(parts.encodings.refusal_of(value).has_value(), fails);
        parts.encodings.forget(value);
        EXPECT_FALSE(parts.encodings.refusal_of(value).has_value());
    }
}

}  // namespace
}  // namespace spillway
