// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "spillway/codecs.h"

#include "codec/codec.h"

#include <gtest/gtest.h>

#include <set>

namespace spillway {
namespace {

TEST(Codecs, every_kind_with_its_size_and_speed) {
    CodecSpeeds const speeds = measure_codecs(1 << 16);
    EXPECT_EQ(speeds.measured_bytes, 1 << 16);
    EXPECT_GT(speeds.copy_bytes_per_s, 0);
    std::set<CodecKind> kinds;
    for (CodecSpeed const& speed : speeds.codecs) {
        Result<Codec> const codec = parse_codec(speed.codec);
        ASSERT_TRUE(codec.ok()) << speed.codec;
        kinds.insert(codec->kind);
        Encoding const mebibyte{*codec, Dtype::f32, speeds.tensor_bytes / 4};
        EXPECT_EQ(speed.encoded_bytes, *encoded_bytes(mebibyte)) << speed.codec;
        EXPECT_EQ(speed.error_bound, error_bound(*codec)) << speed.codec;
        EXPECT_EQ(speed.bound_of.empty(), !speed.lossy) << speed.codec;
        EXPECT_GT(speed.encode_bytes_per_s, 0) << speed.codec;
        EXPECT_GT(speed.decode_bytes_per_s, 0) << speed.codec;
    }
    EXPECT_EQ(kinds.size(), 8U);
}

TEST(Codecs, bits_are_those_of_the_block) {
    for (CodecSpeed const& speed : measure_codecs(1 << 20).codecs) {
        double const most = 8.0 * static_cast<double>(speed.encoded_bytes) / (1 << 18);
        EXPECT_LE(speed.bits_per_element, most) << speed.codec;
        if (speed.codec != "lossless") {
            EXPECT_EQ(speed.bits_per_element, most) << speed.codec;
        }
    }
}

}  // namespace
}  // namespace spillway
