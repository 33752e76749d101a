// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "codec/block.h"

#include "codec/codec_cases.h"
#include "codec/layout.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace spillway {
namespace {

TEST(BlockTest, a_sealed_block_is_the_one_that_encode_wrote) {
    for (Codec const& codec : all_codecs()) {
        for (std::int64_t const count : {0, 1, 1500}) {
            Encoding const one{codec, Dtype::bf16, count};
            if (codec.kind != CodecKind::lossless) {
                Buffer const expected =
                    coded_by(encode_reference, one, input_for(one, Shape::normal));
                Buffer sealed = expected;
                std::fill_n(sealed.begin(), kHeaderBytes, std::byte{0xa5});
                EXPECT_FALSE(check_block(one, sealed).ok()) << words_of(one);
                mark_coded(sealed);
                ASSERT_TRUE(seal_block(one, sealed).ok());
                EXPECT_EQ(sealed, expected) << words_of(one);
                EXPECT_TRUE(check_block(one, sealed).ok()) << words_of(one);
            }
        }
    }
}

TEST(BlockTest, what_a_device_refused_is_not_sealed) {
    for (auto const& [codec, words] :
         {std::pair{"affine4", "element 70 is NaN or infinite"},
          std::pair{"mask", "element 70 is a third value"}}) {
        Encoding const one{*parse_codec(codec), Dtype::bf16, 1100};
        Buffer coded = coded_by(encode_reference, one, input_for(one, Shape::normal));
        mark_coded(coded, 70);
        Result<void> const sealed = seal_block(one, coded);
        ASSERT_FALSE(sealed.ok()) << codec;
        EXPECT_EQ(sealed.error().code, Errc::unsupported);
        EXPECT_EQ(sealed.error().what, words);
    }
}

TEST(BlockTest, every_byte_that_changes_after_the_sealing_is_found) {
    for (char const* const text : {"affine4", "affine3:group=32,absmax", "nf4", "mask", "sign"}) {
        Encoding const one{*parse_codec(text), Dtype::bf16, 1100};
        Buffer coded = coded_by(encode_reference, one, input_for(one, Shape::normal));
        for (std::byte& byte : coded) {
            byte ^= std::byte{0x10};
            Result<void> const checked = check_block(one, coded);
            ASSERT_FALSE(checked.ok()) << text << " byte " << &byte - coded.data();
            EXPECT_EQ(checked.error().code, Errc::corrupt);
            byte ^= std::byte{0x10};
        }
        coded.pop_back();
        EXPECT_FALSE(check_block(one, coded).ok()) << text;
    }
}

}  // namespace
}  // namespace spillway
