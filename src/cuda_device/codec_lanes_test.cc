// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The kernels' own code, its lanes played one after the other, against the scalar codecs.

#include "codec/block.h"
#include "codec/codec_cases.h"
#include "codec/layout.h"
#include "cuda_device/codec_coders.h"
#include "cuda_device/codec_host_warp.h"

#include <gtest/gtest.h>

#include <functional>

namespace spillway::lanes {
namespace {

constexpr auto kAllCoded = static_cast<std::uint64_t>(kNone);
constexpr std::uint64_t kSeed = 7;

enum class Way { whole, plain };
constexpr std::array kWays{Way::whole, Way::plain};

/// Calls `code(coder, is_whole, number)` for each chunk, as the kernels share them.
template <typename Code>
void for_chunks(Task const& task, Way way, Code const& code) {
    bool const known = visit_coder(task.job, [&](auto coder) {
        std::int64_t const whole = way == Way::whole ? task.whole_chunks() : 0;
        for (std::int64_t i = 0; i * arithmetic::kChunk < task.count; ++i) {
            if (i < whole) {
                code(coder, std::true_type{}, i);
            } else {
                code(typename decltype(coder)::Plain{}, std::false_type{}, i);
            }
        }
    });
    EXPECT_TRUE(known) << to_text(task.job.codec);
}

/// Returns the element that is refused; kAllCoded: none is.
std::uint64_t encode_by_lanes(Encoding const& encoding, Buffer const& raw, Buffer& coded, Way way) {
    Task const task = task_of(encoding, kSeed);
    Layout const layout = layout_of(encoding);
    std::byte* const ranges = coded.data() + layout.ranges_offset();
    std::byte* const codes = coded.data() + layout.codes_offset();
    std::fill_n(ranges, layout.range_bytes, std::byte{});
    std::uint64_t refused = kAllCoded;
    HostWarp const warp(refused);
    for_chunks(task, way, [&](auto coder, auto is_whole, std::int64_t i) {
        using Coder = decltype(coder);
        ToEncode const chunk = chunk_of<typename Coder::Value>(task, i, raw.data(), ranges, codes);
        Coder::template encode<is_whole.value>(warp, task, chunk);
    });
    return refused;
}

Buffer decoded_by_lanes(Encoding const& encoding, Buffer const& coded, Way way) {
    Task const task = task_of(encoding, 0);
    Layout const layout = layout_of(encoding);
    std::byte const* const ranges = coded.data() + layout.ranges_offset();
    std::byte const* const codes = coded.data() + layout.codes_offset();
    Buffer raw(static_cast<std::size_t>(encoding.raw_bytes()), std::byte{0xa5});
    std::uint64_t refused = kAllCoded;
    HostWarp const warp(refused);
    for_chunks(task, way, [&](auto coder, auto is_whole, std::int64_t i) {
        using Coder = decltype(coder);
        ToDecode const chunk = chunk_of<typename Coder::Value>(task, i, raw.data(), ranges, codes);
        Coder::template decode<is_whole.value>(warp, task, chunk);
    });
    return raw;
}

bool has_kernels(Encoding const& encoding) {
    return code_bits(encoding.codec) > 0 && takes(encoding);
}

void for_all(std::vector<std::int64_t> const& counts, std::function<void(Encoding const&)> test) {
    for (Codec const& codec : all_codecs()) {
        for (Dtype const dtype : kDtypes) {
            for (std::int64_t const count : counts) {
                Encoding const encoding{codec, dtype, count};
                if (has_kernels(encoding)) {
                    test(encoding);
                }
            }
        }
    }
}

Buffer of_bytes(std::int64_t bytes) {
    return Buffer(static_cast<std::size_t>(bytes), std::byte{0xa5});
}

TEST(CodecLanesTest, parts_are_the_scalar_codecs_bit_by_bit_both_ways) {
    for_all(
        {0, 1, 31, 33, 127, 129, 777, 1023, 1024, 1025, 3 * 1024 + 57},
        [](Encoding const& one) {
            for (Shape const shape : kShapes) {
                Buffer const raw = input_for(one, shape);
                Buffer const expected = coded_by(encode_reference, one, raw, kSeed);
                Buffer const back = decoded_by(decode_reference, one, expected);
                for (Way const way : kWays) {
                    Buffer coded = of_bytes(std::ssize(expected));
                    EXPECT_EQ(encode_by_lanes(one, raw, coded, way), kAllCoded);
                    ASSERT_TRUE(std::equal(
                        coded.begin() + kHeaderBytes, coded.end(), expected.begin() + kHeaderBytes
                    )) << words_of(one, shape);
                    ASSERT_EQ(decoded_by_lanes(one, expected, way), back) << words_of(one, shape);
                }
            }
        }
    );
}

TEST(CodecLanesTest, groups_of_every_size_and_wide_counts_too) {
    for (char const* const text :
         {"affine2:group=64",
          "affine3:group=256,stochastic",
          "affine4:group=512,absmax",
          "affine5:group=256",
          "affine6:group=64,absmax,stochastic",
          "affine8:group=512",
          "fp8_e4m3:group=256",
          "fp8_e5m2:group=64",
          "nf4:group=512"}) {
        for (Dtype const dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
            Encoding const one{*parse_codec(text), dtype, 20 * 1024 + 311};
            Buffer const raw = input_for(one, Shape::outlier);
            Buffer const expected = coded_by(encode_reference, one, raw, kSeed);
            for (Way const way : kWays) {
                Buffer coded = expected;
                std::fill(coded.begin() + kHeaderBytes, coded.end(), std::byte{0xa5});
                EXPECT_EQ(encode_by_lanes(one, raw, coded, way), kAllCoded);
                EXPECT_EQ(coded, expected) << words_of(one);
                EXPECT_EQ(
                    decoded_by_lanes(one, coded, way), decoded_by(decode_reference, one, coded)
                ) << words_of(one);
            }
        }
    }
}

/// Infinity, which `mask` takes for its third value.
void spoil(Encoding const& encoding, Buffer& raw, std::int64_t index) {
    auto const size = static_cast<std::size_t>(size_of(encoding.dtype));
    constexpr std::uint32_t kInfinities[] = {0xff800000U, 0x7f80U, 0xfc00U, 0x55U};
    std::memcpy(
        raw.data() + static_cast<std::size_t>(index) * size,
        &kInfinities[static_cast<std::size_t>(encoding.dtype)],
        size
    );
}

TEST(CodecLanesTest, the_first_element_that_cannot_be_coded_is_told) {
    for_all({3000}, [](Encoding const& one) {
        for (std::int64_t const index : {700, 1024, 2047, 2048, 2999}) {
            Buffer raw = input_for(one, Shape::normal);
            spoil(one, raw, index);
            spoil(one, raw, 2999);
            for (Way const way : kWays) {
                Buffer coded = of_bytes(*encoded_bytes(one));
                EXPECT_EQ(encode_by_lanes(one, raw, coded, way), static_cast<std::uint64_t>(index))
                    << words_of(one);
            }
        }
    });
}

TEST(CodecLanesTest, a_mask_of_zeros_alone_has_no_other_value) {
    Encoding const one{*parse_codec("mask"), Dtype::bf16, 2500};
    Buffer raw = of_bytes(one.raw_bytes());
    std::fill(raw.begin(), raw.end(), std::byte{});
    for (Way const way : kWays) {
        Buffer coded = of_bytes(*encoded_bytes(one));
        EXPECT_EQ(encode_by_lanes(one, raw, coded, way), kAllCoded);
        EXPECT_EQ(decoded_by_lanes(one, coded, way), raw);
    }
}

TEST(CodecLanesTest, sealed_on_the_host_they_are_the_scalar_codecs_blocks) {
    for_all({0, 1, 1500}, [](Encoding const& one) {
        Buffer const raw = input_for(one, Shape::normal);
        Buffer coded = of_bytes(*encoded_bytes(one));
        EXPECT_EQ(encode_by_lanes(one, raw, coded, Way::whole), kAllCoded);
        mark_coded(coded);
        ASSERT_TRUE(seal_block(one, coded).ok());
        EXPECT_EQ(coded, coded_by(encode_reference, one, raw, kSeed)) << words_of(one);
        EXPECT_TRUE(check_block(one, coded).ok()) << words_of(one);
    });
}

TEST(CodecLanesTest, only_what_has_codes_has_kernels) {
    for (char const* const text : {"identity", "lossless"}) {
        Task const task = task_of({*parse_codec(text), Dtype::f32, 5}, 0);
        EXPECT_FALSE(visit_coder(task.job, [](auto) {})) << text;
    }
}

}  // namespace
}  // namespace spillway::lanes
