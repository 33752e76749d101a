// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What codecs refuse: elements that they cannot give back, sizes that are none, blocks that are not
// what was encoded.

#include "codec/block.h"
#include "codec/codec.h"
#include "codec/codec_cases.h"
#include "codec/layout.h"

#include <gtest/gtest.h>

#include <limits>

namespace spillway {
namespace {

void put_bits(Dtype dtype, Buffer& raw, std::int64_t index, std::uint32_t bits) {
    auto const size = static_cast<std::size_t>(size_of(dtype));
    std::memcpy(raw.data() + static_cast<std::size_t>(index) * size, &bits, size);
}

std::array<std::uint32_t, 4> no_numbers(Dtype dtype) {
    switch (dtype) {
        case Dtype::bf16:
            return {0x7f80U, 0xff80U, 0x7fc0U, 0xff81U};
        case Dtype::f16:
            return {0x7c00U, 0xfc00U, 0x7e00U, 0xfc01U};
        default:
            return {0x7f800000U, 0xff800000U, 0x7fc00000U, 0xff800001U};
    }
}

TEST(Refused, nan_and_infinity_with_their_index_by_what_cannot_hold_them) {
    for (Codec const& codec : all_codecs()) {
        for (Dtype const dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
            for (std::uint32_t const bits : no_numbers(dtype)) {
                for (std::int64_t const index : {0, 17, 1023, 1024, 2047, 2500}) {
                    Encoding const encoding{codec, dtype, 2501};
                    Buffer raw = input_for(encoding, Shape::normal);
                    put_bits(dtype, raw, index, bits);
                    put_bits(dtype, raw, 2500, bits);
                    Buffer coded(static_cast<std::size_t>(*encoded_bytes(encoding)));
                    Result<std::int64_t> const done = encode(encoding, raw, coded, 3);
                    if (!is_lossy(codec)) {
                        continue;
                    }
                    ASSERT_FALSE(done.ok()) << words_of(encoding) << " " << index;
                    EXPECT_EQ(done.error().code, Errc::unsupported);
                    EXPECT_NE(
                        done.error().what.find("element " + std::to_string(index) + " "),
                        std::string::npos
                    ) << done.error().what;
                }
            }
        }
    }
}

TEST(Refused, no_number_survives_where_bits_do) {
    for (char const* const text : {"identity", "lossless"}) {
        for (Dtype const dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
            Encoding const encoding{*parse_codec(text), dtype, 1000};
            Buffer raw = input_for(encoding, Shape::normal);
            for (std::size_t i = 0; i < 4; ++i) {
                put_bits(dtype, raw, static_cast<std::int64_t>(i * 99), no_numbers(dtype)[i]);
            }
            EXPECT_EQ(decoded_by(decode, encoding, coded_by(encode, encoding, raw)), raw);
        }
    }
    Encoding const mask{*parse_codec("mask"), Dtype::f32, 2000};
    Buffer raw = mask_of(Dtype::f32, 2000, std::numeric_limits<float>::quiet_NaN());
    EXPECT_EQ(decoded_by(decode, mask, coded_by(encode, mask, raw)), raw);
}

TEST(Refused, a_third_value_under_mask) {
    for (Dtype const dtype : kDtypes) {
        for (std::int64_t const index : {3, 1000, 1024, 1500}) {
            Encoding const encoding{*parse_codec("mask"), dtype, 1501};
            Buffer raw = mask_of(dtype, encoding.count);
            put_bits(dtype, raw, index, 0x3eU);
            Buffer coded(static_cast<std::size_t>(*encoded_bytes(encoding)));
            Result<std::int64_t> const done = encode(encoding, raw, coded, 0);
            ASSERT_FALSE(done.ok());
            EXPECT_EQ(done.error().code, Errc::unsupported);
            EXPECT_NE(
                done.error().what.find("element " + std::to_string(index) + " "), std::string::npos
            ) << done.error().what;
        }
    }
}

TEST(Refused, minus_zero_is_a_value_of_its_own_to_mask) {
    Encoding const encoding{*parse_codec("mask"), Dtype::f32, 100};
    Buffer raw = mask_of(Dtype::f32, 100);
    put(Dtype::f32, raw, 99, -0.0F);
    Buffer coded(static_cast<std::size_t>(*encoded_bytes(encoding)));
    EXPECT_FALSE(encode(encoding, raw, coded, 0).ok());
    raw = mask_of(Dtype::f32, 100, -0.0F);
    EXPECT_EQ(decoded_by(decode, encoding, coded_by(encode, encoding, raw)), raw);
}

TEST(Refused, spans_of_another_size) {
    Encoding const encoding{*parse_codec("affine4"), Dtype::f32, 1000};
    Buffer const raw = input_for(encoding, Shape::normal);
    Buffer coded(static_cast<std::size_t>(*encoded_bytes(encoding)));
    std::span<std::byte const> const all(raw);
    EXPECT_EQ(encode(encoding, all.first(3999), coded, 0).error().code, Errc::bad_argument);
    EXPECT_EQ(
        encode(encoding, raw, std::span(coded).first(coded.size() - 1), 0).error().code,
        Errc::bad_argument
    );
    ASSERT_TRUE(encode(encoding, raw, coded, 0).ok());
    Buffer back(3996);
    EXPECT_EQ(decode(encoding, coded, back).error().code, Errc::bad_argument);
}

TEST(Refused, truncated_blocks) {
    for (Codec const& codec : all_codecs()) {
        Encoding const encoding{codec, Dtype::bf16, 1500};
        Buffer const coded = coded_by(encode, encoding, input_for(encoding, Shape::normal));
        for (std::size_t const less : {std::size_t{1}, coded.size() / 2, coded.size()}) {
            Buffer raw(static_cast<std::size_t>(encoding.raw_bytes()));
            Result<void> const done =
                decode(encoding, std::span(coded).first(coded.size() - less), raw);
            ASSERT_FALSE(done.ok()) << words_of(encoding);
            EXPECT_EQ(done.error().code, Errc::corrupt) << words_of(encoding);
        }
    }
}

TEST(Refused, any_changed_byte) {
    for (char const* const text :
         {"identity", "mask", "sign", "lossless", "nf4", "fp8_e4m3", "affine3:stochastic"}) {
        Encoding const encoding{*parse_codec(text), Dtype::f32, 1100};
        Buffer coded = coded_by(encode, encoding, input_for(encoding, Shape::normal));
        Buffer raw(static_cast<std::size_t>(encoding.raw_bytes()));
        for (std::size_t i = 0; i < coded.size(); ++i) {
            std::byte const kept = coded[i];
            coded[i] ^= static_cast<std::byte>(1U << (i % 8));
            Result<void> const done = decode(encoding, coded, raw);
            ASSERT_FALSE(done.ok()) << text << ", byte " << i;
            EXPECT_EQ(done.error().code, Errc::corrupt) << text << ", byte " << i;
            coded[i] = kept;
        }
        EXPECT_TRUE(decode(encoding, coded, raw).ok()) << text;
    }
}

TEST(Refused, a_block_of_another_encoding) {
    Encoding const encoding{*parse_codec("affine4"), Dtype::f32, 1024};
    Buffer const coded = coded_by(encode, encoding, input_for(encoding, Shape::normal));
    for (Encoding const& other :
         {Encoding{*parse_codec("affine4:stochastic"), Dtype::f32, 1024},
          Encoding{*parse_codec("affine4:group=64"), Dtype::f32, 1024},
          Encoding{*parse_codec("nf4:group=128"), Dtype::f32, 1024},
          Encoding{*parse_codec("affine4"), Dtype::f32, 1023},
          Encoding{*parse_codec("affine4"), Dtype::bf16, 1024}}) {
        Buffer raw(static_cast<std::size_t>(other.raw_bytes()));
        Result<void> const done = decode(other, coded, raw);
        ASSERT_FALSE(done.ok()) << words_of(other);
        EXPECT_EQ(done.error().code, Errc::corrupt);
    }
}

TEST(Refused, lossless_may_lie_in_more_room_than_it_takes) {
    Encoding const encoding{*parse_codec("lossless"), Dtype::f32, 5000};
    Buffer const raw = input_for(encoding, Shape::constant);
    Buffer coded(static_cast<std::size_t>(*encoded_bytes(encoding)));
    Result<std::int64_t> const size = encode(encoding, raw, coded, 0);
    ASSERT_LT(*size, std::ssize(coded) / 10);
    EXPECT_EQ(decoded_by(decode, encoding, coded), raw);
}

/// Random parts under a header that is right: nothing but the checks of what they hold is left.
TEST(Refused, random_bytes_under_right_checksums_stay_inside_their_spans) {
    std::mt19937 random(11);
    for (Codec const& codec : all_codecs()) {
        for (int round = 0; round < 6; ++round) {
            Encoding const encoding{codec, Dtype::f16, static_cast<std::int64_t>(random() % 3000)};
            Buffer coded(static_cast<std::size_t>(*encoded_bytes(encoding)));
            for (std::byte& byte : coded) {
                byte = static_cast<std::byte>(random());
            }
            Layout const layout = layout_of(encoding);
            std::span<std::byte const> const all(coded);
            auto const codes_at = static_cast<std::size_t>(layout.codes_offset());
            Sum ranges;
            ranges.add(all.subspan(64, static_cast<std::size_t>(layout.range_bytes)));
            Sum codes;
            codes.add(all.subspan(codes_at));
            write_header(encoding, {layout.codes_bytes, ranges.value(), codes.value()}, coded);
            Buffer raw(static_cast<std::size_t>(encoding.raw_bytes()));
            Result<void> const done = decode(encoding, coded, raw);
            if (codec.kind != CodecKind::lossless) {
                EXPECT_TRUE(done.ok()) << words_of(encoding) << done.error().message();
            }
        }
    }
}

TEST(Refused, random_blocks) {
    std::mt19937 random(12);
    for (Codec const& codec : all_codecs()) {
        for (int round = 0; round < 20; ++round) {
            Encoding const encoding{codec, Dtype::f32, static_cast<std::int64_t>(random() % 1500)};
            Buffer coded(random() % 3000);
            for (std::byte& byte : coded) {
                byte = static_cast<std::byte>(random());
            }
            Buffer raw(static_cast<std::size_t>(encoding.raw_bytes()));
            Result<void> const done = decode(encoding, coded, raw);
            ASSERT_FALSE(done.ok());
            EXPECT_EQ(done.error().code, Errc::corrupt);
        }
    }
}

}  // namespace
}  // namespace spillway
