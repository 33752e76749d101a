// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The fast kernels give the plain ones' bits, with every kind of vector that this machine has.

#include "codec/codec.h"
#include "codec/codec_cases.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

namespace spillway {
namespace {

/// The fast kernels use one kind of vector while it lives.
class Vectors {
  public:
    explicit Vectors(std::int64_t target) {
        hwy::SetSupportedTargetsForTest(target);
        hwy::GetChosenTarget().Update(target);
    }
    Vectors(Vectors const&) = delete;
    Vectors& operator=(Vectors const&) = delete;
    ~Vectors() {
        hwy::SetSupportedTargetsForTest(0);
        hwy::GetChosenTarget().DeInit();
    }
};

/// Those that this machine has, one lane included.
std::vector<std::int64_t> all_vectors() {
    std::vector<std::int64_t> targets = hwy::SupportedAndGeneratedTargets();
    if (std::find(targets.begin(), targets.end(), HWY_STATIC_TARGET) == targets.end()) {
        targets.push_back(HWY_STATIC_TARGET);
    }
    return targets;
}

class Fast : public testing::TestWithParam<std::int64_t> {};

TEST_P(Fast, encodes_the_plain_bits) {
    Vectors const vectors(GetParam());
    for (Codec const& codec : all_codecs()) {
        for (Dtype const dtype : kDtypes) {
            for (std::int64_t const count : {0, 5, 1024, 65 * 1024 + 333}) {
                Encoding const encoding{codec, dtype, count};
                if (!takes(encoding)) {
                    continue;
                }
                Buffer const raw = input_for(encoding, Shape::normal);
                Buffer const plain = coded_by(encode_reference, encoding, raw);
                EXPECT_TRUE(coded_by(encode, encoding, raw) == plain) << words_of(encoding);
            }
        }
    }
}

TEST_P(Fast, encodes_and_decodes_the_plain_bits_whatever_the_data) {
    Vectors const vectors(GetParam());
    for (Codec const& codec : all_codecs()) {
        for (Dtype const dtype : kDtypes) {
            Encoding const encoding{codec, dtype, 2 * 1024 + 77};
            if (!takes(encoding)) {
                continue;
            }
            for (Shape const shape : kShapes) {
                Buffer const raw = input_for(encoding, shape);
                Buffer const coded = coded_by(encode_reference, encoding, raw);
                ASSERT_FALSE(coded.empty());
                EXPECT_TRUE(coded_by(encode, encoding, raw) == coded) << words_of(encoding, shape);
                Buffer const plain = decoded_by(decode_reference, encoding, coded);
                EXPECT_TRUE(decoded_by(decode, encoding, coded) == plain)
                    << words_of(encoding, shape);
            }
        }
    }
}

/// `bytes` of `room`, `off` behind a multiple of 64.
std::span<std::byte> aligned(Buffer& room, std::size_t off, std::size_t bytes) {
    auto const address = reinterpret_cast<std::uintptr_t>(room.data());
    return std::span(room).subspan((64 - address % 64) % 64 + off, bytes);
}

TEST_P(Fast, gives_the_plain_bits_past_the_caches) {
    Vectors const vectors(GetParam());
    for (char const* const text : {"affine4", "affine3:absmax"}) {
        for (Dtype const dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
            Encoding const encoding{*parse_codec(text), dtype, (4 << 20) / size_of(dtype) + 1};
            Buffer const raw = input_for(encoding, Shape::outlier);
            Buffer const coded = coded_by(encode_reference, encoding, raw);
            Buffer const back = decoded_by(decode_reference, encoding, coded);
            Buffer room(raw.size() + 128);
            for (std::size_t const off : {std::size_t{0}, std::size_t{4}}) {
                std::span<std::byte> const block = aligned(room, off, coded.size());
                ASSERT_TRUE(encode(encoding, raw, block, 7).ok());
                EXPECT_TRUE(std::equal(block.begin(), block.end(), coded.begin()))
                    << words_of(encoding);
                std::span<std::byte> const decoded = aligned(room, off, back.size());
                ASSERT_TRUE(decode(encoding, coded, decoded).ok());
                EXPECT_TRUE(std::equal(decoded.begin(), decoded.end(), back.begin()))
                    << words_of(encoding);
            }
        }
    }
}

TEST_P(Fast, refuses_the_same_element_with_the_same_words) {
    Vectors const vectors(GetParam());
    for (Codec const& codec : all_codecs()) {
        if (codec.kind == CodecKind::identity || codec.kind == CodecKind::lossless) {
            continue;
        }
        for (Dtype const dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
            for (std::int64_t const index : {0, 40, 1023, 3000}) {
                Encoding const encoding{codec, dtype, 4096};
                Buffer raw = input_for(encoding, Shape::normal);
                float const infinity = -std::numeric_limits<float>::infinity();
                put(Dtype::f32, raw, index * size_of(dtype) / 4, infinity);
                Buffer coded(static_cast<std::size_t>(*encoded_bytes(encoding)));
                Result<std::int64_t> const fast = encode(encoding, raw, coded, 0);
                Result<std::int64_t> const plain = encode_reference(encoding, raw, coded, 0);
                ASSERT_EQ(fast.ok(), plain.ok()) << words_of(encoding);
                if (!fast.ok()) {
                    EXPECT_EQ(fast.error(), plain.error()) << words_of(encoding);
                }
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(
    Vectors,
    Fast,
    testing::ValuesIn(all_vectors()),
    [](testing::TestParamInfo<std::int64_t> const& target) {
        return std::string(hwy::TargetName(target.param));
    }
);

TEST(Fast, numbers_whose_sum_is_none_are_numbers) {
    Encoding const encoding{*parse_codec("affine8"), Dtype::f32, 2048};
    Buffer raw(static_cast<std::size_t>(encoding.raw_bytes()));
    for (std::int64_t i = 0; i < encoding.count; ++i) {
        put(Dtype::f32, raw, i, 0x1.8p126F + (i % 2 == 0 ? 0x1p110F : 0));
    }
    Buffer const coded = coded_by(encode, encoding, raw);
    EXPECT_EQ(coded, coded_by(encode_reference, encoding, raw));
    EXPECT_EQ(decoded_by(decode, encoding, coded), raw);
}

}  // namespace
}  // namespace spillway
