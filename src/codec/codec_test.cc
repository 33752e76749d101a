// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "codec/codec.h"

#include "codec/codec_cases.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Codec, text_and_back) {
    for (Codec const& codec : all_codecs()) {
        Result<Codec> const read = parse_codec(to_text(codec));
        ASSERT_TRUE(read.ok()) << to_text(codec);
        EXPECT_EQ(*read, codec) << to_text(codec);
    }
}

TEST(Codec, what_is_not_named_has_its_default) {
    Codec const codec = *parse_codec("affine4");
    EXPECT_EQ(codec, (Codec{.kind = CodecKind::affine, .bits = 4, .group = 128}));
    EXPECT_EQ(to_text(codec), "affine4");
    EXPECT_EQ(parse_codec("nf4")->group, 64);
    EXPECT_EQ(
        to_text(*parse_codec("affine2:stochastic,group=64,absmax")),
        "affine2:group=64,absmax,stochastic"
    );
}

TEST(Codec, names_widths_and_groups_that_do_not_exist) {
    for (char const* const text :
         {"",
          "affine",
          "affine1",
          "affine7",
          "affine16",
          "int4",
          "AFFINE4",
          "affine4:",
          "affine4:group",
          "affine4:group=",
          "affine4:group=16",
          "affine4:group=2048",
          "affine4:group=100",
          "affine4:group=-32",
          "affine4:group=64x",
          "affine4:group=99999999999",
          "affine4:absmax,absmax",
          "affine4,absmax",
          "affine4:absmax,",
          "nf4:stochastic",
          "fp8",
          "fp8_e4m3:absmax",
          "mask:group=32",
          "lossless:1"}) {
        Result<Codec> const codec = parse_codec(text);
        ASSERT_FALSE(codec.ok()) << text;
        EXPECT_EQ(codec.error().code, Errc::bad_argument) << text;
        EXPECT_EQ(codec.error().where, text);
    }
    EXPECT_NE(parse_codec("int4").error().what.find("affine4"), std::string::npos);
}

TEST(Codec, parameters_that_do_not_exist_have_no_size) {
    for (Codec const& codec :
         {Codec{.kind = CodecKind::affine, .bits = 7, .group = 128},
          Codec{.kind = CodecKind::affine, .bits = 4},
          Codec{.kind = CodecKind::affine, .bits = 4, .group = 96},
          Codec{.kind = CodecKind::nf4, .bits = 4, .group = 64},
          Codec{.kind = CodecKind::mask, .group = 64},
          Codec{.kind = CodecKind::sign, .stochastic = true}}) {
        Result<std::int64_t> const size = encoded_bytes({codec, Dtype::f32, 100});
        ASSERT_FALSE(size.ok());
        EXPECT_EQ(size.error().code, Errc::bad_argument);
    }
    EXPECT_EQ(
        encoded_bytes({*parse_codec("nf4"), Dtype::f32, -1}).error().code, Errc::bad_argument
    );
    EXPECT_EQ(encoded_bytes({*parse_codec("nf4"), Dtype::u8, 1}).error().code, Errc::unsupported);
    EXPECT_EQ(encoded_bytes({*parse_codec("sign"), Dtype::u8, 1}).error().code, Errc::unsupported);
}

TEST(Codec, sizes_are_what_the_format_page_says) {
    auto const size = [](char const* text, Dtype dtype, std::int64_t count) {
        return *encoded_bytes({*parse_codec(text), dtype, count});
    };
    EXPECT_EQ(size("affine4", Dtype::f32, 1 << 18), 64 + 2048 * 8 + (1 << 17));
    EXPECT_EQ(size("affine4:absmax", Dtype::bf16, 1 << 18), 64 + 2048 * 2 + (1 << 17));
    EXPECT_EQ(size("affine3:group=32", Dtype::f16, 1024), 64 + 32 * 4 + 1024 * 3 / 8);
    EXPECT_EQ(size("affine8", Dtype::f32, 1), 64 + 64 + 32);
    EXPECT_EQ(size("nf4", Dtype::f32, 1024 + 33), 64 + 128 + 512 + 32);
    EXPECT_EQ(size("mask", Dtype::u8, 1 << 20), 64 + 64 + (1 << 17));
    EXPECT_EQ(size("sign", Dtype::f32, 4096), 64 + 512);
    EXPECT_EQ(size("identity", Dtype::f32, 100), 64 + 400);
    EXPECT_EQ(size("lossless", Dtype::f32, 100), 64 + 4 + 400);
    EXPECT_EQ(size("lossless", Dtype::f32, 1 << 16), 64 + 2 * 4 + (1 << 18));
    EXPECT_EQ(size("affine4", Dtype::f32, 0), 64);
}

TEST(Codec, only_what_cannot_give_back_every_bit_is_lossy) {
    for (Codec const& codec : all_codecs()) {
        bool const exact = codec.kind == CodecKind::identity || codec.kind == CodecKind::mask ||
                           codec.kind == CodecKind::lossless;
        EXPECT_EQ(is_lossy(codec), !exact) << to_text(codec);
        EXPECT_EQ(error_bound(codec) > 0, !exact) << to_text(codec);
    }
    EXPECT_NEAR(error_bound(*parse_codec("affine4")), 0.5 / 15, 1e-4);
    EXPECT_NEAR(error_bound(*parse_codec("affine4:stochastic")), 1.0 / 15, 1e-4);
    EXPECT_NEAR(error_bound(*parse_codec("affine8:absmax")), 0.5 / 127, 1e-4);
}

}  // namespace
}  // namespace spillway
