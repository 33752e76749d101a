// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What every codec promises, whatever the element, the count and the data.

#include "codec/codec.h"
#include "codec/codec_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace spillway {
namespace {

std::vector<std::int64_t> counts_for(Codec const& codec) {
    std::int64_t const group = codec.group == 0 ? 64 : codec.group;
    std::vector<std::int64_t> counts{
        0, 1, 31, group - 1, group, group + 1, 777, 1024, 3 * 1024 + 57};
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
    return counts;
}

void for_all(std::function<void(Encoding const&, Shape)> const& test) {
    for (Codec const& codec : all_codecs()) {
        for (Dtype const dtype : kDtypes) {
            for (std::int64_t const count : counts_for(codec)) {
                Encoding const encoding{codec, dtype, count};
                for (Shape const shape : kShapes) {
                    if (takes(encoding)) {
                        test(encoding, shape);
                    }
                }
            }
        }
    }
}

/// The most that rounding to the dtype adds to an error at `value`.
double half_a_unit(Dtype dtype, double value) {
    double const size = std::abs(value);
    switch (dtype) {
        case Dtype::bf16:
            return std::max(size * 0x1p-8, 0x1p-134);
        case Dtype::f16:
            return std::max(size * 0x1p-11, 0x1p-25);
        default:
            return std::max(size * 0x1p-24, 0x1p-150);
    }
}

/// What the codec's bound is a share of, in the group that begins at `first`.
double span_of(Encoding const& encoding, Buffer const& raw, std::int64_t first) {
    double low = get(encoding.dtype, raw, first);
    double high = low;
    for (std::int64_t i = first; i < std::min(encoding.count, first + encoding.codec.group); ++i) {
        low = std::min<double>(low, get(encoding.dtype, raw, i));
        high = std::max<double>(high, get(encoding.dtype, raw, i));
    }
    bool const both = encoding.codec.kind == CodecKind::affine && !encoding.codec.absmax;
    return both ? high - low : std::max(std::abs(low), std::abs(high));
}

/// How many elements are farther off than the codec promises.
int beyond_bound(Encoding const& encoding, Buffer const& raw, Buffer const& back) {
    int beyond = 0;
    double span = 0;
    for (std::int64_t i = 0; i < encoding.count; ++i) {
        if (i % encoding.codec.group == 0) {
            span = span_of(encoding, raw, i);
        }
        double const before = get(encoding.dtype, raw, i);
        double const after = get(encoding.dtype, back, i);
        double const most = error_bound(encoding.codec) * span + half_a_unit(encoding.dtype, after);
        beyond += std::abs(after - before) <= most ? 0 : 1;
    }
    return beyond;
}

TEST(Conformance, size_is_exact_and_known_before) {
    for_all([](Encoding const& encoding, Shape shape) {
        Buffer const raw = input_for(encoding, shape);
        Buffer const coded = coded_by(encode, encoding, raw);
        std::int64_t const promised = *encoded_bytes(encoding);
        if (encoding.codec.kind == CodecKind::lossless) {
            EXPECT_LE(std::ssize(coded), promised) << words_of(encoding, shape);
            EXPECT_GE(std::ssize(coded), 64) << words_of(encoding, shape);
        } else {
            EXPECT_EQ(std::ssize(coded), promised) << words_of(encoding, shape);
        }
    });
}

TEST(Conformance, what_is_not_lossy_is_exact) {
    for_all([](Encoding const& encoding, Shape shape) {
        if (!is_lossy(encoding.codec)) {
            Buffer const raw = input_for(encoding, shape);
            Buffer const coded = coded_by(encode, encoding, raw);
            EXPECT_TRUE(decoded_by(decode, encoding, coded) == raw) << words_of(encoding, shape);
        }
    });
}

TEST(Conformance, no_error_is_beyond_the_bound) {
    for_all([](Encoding const& encoding, Shape shape) {
        if (encoding.codec.group > 0) {
            Buffer const raw = input_for(encoding, shape);
            Buffer const back = decoded_by(decode, encoding, coded_by(encode, encoding, raw));
            ASSERT_EQ(back.size(), raw.size()) << words_of(encoding, shape);
            EXPECT_EQ(beyond_bound(encoding, raw, back), 0) << words_of(encoding, shape);
        }
    });
}

TEST(Conformance, decoded_values_lie_between_the_ends_of_their_group) {
    for_all([](Encoding const& encoding, Shape shape) {
        if (encoding.codec.kind != CodecKind::affine || encoding.codec.absmax) {
            return;
        }
        Buffer const raw = input_for(encoding, shape);
        Buffer const back = decoded_by(decode, encoding, coded_by(encode, encoding, raw));
        for (std::int64_t first = 0; first < encoding.count; first += encoding.codec.group) {
            float low = get(encoding.dtype, raw, first);
            float high = low;
            std::int64_t const end = std::min(encoding.count, first + encoding.codec.group);
            for (std::int64_t i = first; i < end; ++i) {
                low = std::min(low, get(encoding.dtype, raw, i));
                high = std::max(high, get(encoding.dtype, raw, i));
            }
            for (std::int64_t i = first; i < end; ++i) {
                float const value = get(encoding.dtype, back, i);
                ASSERT_TRUE(value >= low && value <= high) << words_of(encoding, shape) << " " << i;
            }
        }
    });
}

TEST(Conformance, signs_are_whether_an_element_is_above_zero) {
    for_all([](Encoding const& encoding, Shape shape) {
        if (encoding.codec.kind != CodecKind::sign) {
            return;
        }
        Buffer const raw = input_for(encoding, shape);
        Buffer const back = decoded_by(decode, encoding, coded_by(encode, encoding, raw));
        for (std::int64_t i = 0; i < encoding.count; ++i) {
            float const expected = get(encoding.dtype, raw, i) > 0 ? 1.0F : 0.0F;
            ASSERT_EQ(get(encoding.dtype, back, i), expected) << words_of(encoding, shape);
        }
    });
}

TEST(Conformance, equal_bytes_and_seed_give_equal_blocks) {
    for_all([](Encoding const& encoding, Shape shape) {
        Buffer const raw = input_for(encoding, shape);
        EXPECT_TRUE(coded_by(encode, encoding, raw) == coded_by(encode, encoding, raw))
            << words_of(encoding, shape);
    });
}

TEST(Conformance, constant_groups_and_their_ends_are_exact) {
    for (Codec const& codec : all_codecs()) {
        for (Dtype const dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
            Encoding const encoding{codec, dtype, 3000};
            bool const nothing_lost = codec.kind == CodecKind::affine && !codec.absmax;
            if (nothing_lost) {
                Buffer const raw = input_for(encoding, Shape::constant);
                EXPECT_EQ(decoded_by(decode, encoding, coded_by(encode, encoding, raw)), raw)
                    << words_of(encoding);
            }
        }
    }
}

TEST(Conformance, values_on_the_grid_stay_in_place_also_where_rounding_is_random) {
    for (char const* const text :
         {"affine4", "affine4:stochastic", "affine4:group=32,stochastic"}) {
        Encoding const encoding{*parse_codec(text), Dtype::f32, 4096};
        Buffer const raw = input_for(encoding, Shape::spaced);
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
            EXPECT_EQ(decoded_by(decode, encoding, coded_by(encode, encoding, raw, seed)), raw);
        }
    }
}

TEST(Conformance, zeros_between_positive_values_stay_zero) {
    for (char const* const text : {"affine2", "affine4:absmax", "nf4", "fp8_e5m2"}) {
        Encoding const encoding{*parse_codec(text), Dtype::bf16, 2048};
        Buffer raw = values_of(Shape::normal, Dtype::bf16, encoding.count);
        for (std::int64_t i = 0; i < encoding.count; ++i) {
            put(Dtype::bf16, raw, i, std::max(0.0F, get(Dtype::bf16, raw, i)));
        }
        Buffer const back = decoded_by(decode, encoding, coded_by(encode, encoding, raw));
        for (std::int64_t i = 0; i < encoding.count; ++i) {
            if (get(Dtype::bf16, raw, i) == 0) {
                ASSERT_EQ(get(Dtype::bf16, back, i), 0) << text << " " << i;
            }
        }
    }
}

TEST(Conformance, stochastic_codes_depend_on_the_seed_others_do_not) {
    for (Codec const& codec : all_codecs()) {
        Encoding const encoding{codec, Dtype::f32, 5000};
        Buffer const raw = input_for(encoding, Shape::normal);
        bool const same = coded_by(encode, encoding, raw, 1) == coded_by(encode, encoding, raw, 2);
        EXPECT_EQ(same, !codec.stochastic) << to_text(codec);
    }
}

/// How far the mean of many decodings is from the value, in steps.
double bias_of(char const* text, std::int64_t count, int rounds) {
    Encoding const encoding{*parse_codec(text), Dtype::f32, count};
    Buffer const raw = values_of(Shape::normal, Dtype::f32, encoding.count);
    double sum = 0;
    for (int seed = 0; seed < rounds; ++seed) {
        auto const number = static_cast<std::uint64_t>(seed);
        Buffer const back = decoded_by(decode, encoding, coded_by(encode, encoding, raw, number));
        for (std::int64_t i = 0; i < encoding.count; ++i) {
            sum += get(Dtype::f32, back, i) - get(Dtype::f32, raw, i);
        }
    }
    double const step = span_of(encoding, raw, 0) * error_bound(encoding.codec);
    return sum / static_cast<double>(rounds) / static_cast<double>(count) / step;
}

TEST(Conformance, stochastic_is_right_on_average) {
    // The standard deviation of one rounding is at most half a step: of 512,000 at most 0.0007.
    for (char const* const text :
         {"affine2:group=1024,stochastic",
          "affine4:group=1024,stochastic",
          "affine8:group=1024,stochastic",
          "affine4:group=1024,absmax,stochastic"}) {
        EXPECT_LT(std::abs(bias_of(text, 1024, 500)), 0.0035) << text;
    }
}

TEST(Conformance, each_element_of_stochastic_is_right_on_average) {
    Encoding const encoding{*parse_codec("affine2:group=64,stochastic"), Dtype::f32, 64};
    Buffer raw = values_of(Shape::normal, Dtype::f32, 64);
    put(Dtype::f32, raw, 0, -3);
    put(Dtype::f32, raw, 63, 3);  // steps of 2
    std::array<double, 64> sums{};
    constexpr int kRounds = 4000;
    for (std::uint64_t seed = 0; seed < kRounds; ++seed) {
        Buffer const back = decoded_by(decode, encoding, coded_by(encode, encoding, raw, seed));
        for (std::int64_t i = 0; i < 64; ++i) {
            sums[static_cast<std::size_t>(i)] += get(Dtype::f32, back, i);
        }
    }
    for (std::int64_t i = 0; i < 64; ++i) {
        double const mean = sums[static_cast<std::size_t>(i)] / kRounds;
        EXPECT_NEAR(mean, get(Dtype::f32, raw, i), 5 * 1.0 / std::sqrt(kRounds)) << i;
    }
}

}  // namespace
}  // namespace spillway
