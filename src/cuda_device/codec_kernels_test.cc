// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda_device/codec_kernels.h"

#include "codec/block.h"
#include "codec/codec_cases.h"
#include "codec/layout.h"
#include "cuda_device/cuda_test_support.h"
#include "cuda_device/smoke.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

#define SPILLWAY_NEEDS_KERNELS() \
    SPILLWAY_NEEDS_GPU();        \
    if (!kernels_are_built())    \
    GTEST_SKIP() << "no nvcc compiled the kernels"

constexpr std::int64_t kGuard = 64;  // bytes behind each part that no kernel may touch
constexpr std::byte kGuardByte{0x5a};

/// Memory on the device, its bytes copied by calls that wait.
class DeviceBytes {
  public:
    explicit DeviceBytes(std::int64_t size) : size_(static_cast<std::size_t>(size)) {
        EXPECT_EQ(::cudaMalloc(&memory_, size_), cudaSuccess);
        EXPECT_EQ(::cudaMemset(memory_, 0x5a, size_), cudaSuccess);
    }
    ~DeviceBytes() { static_cast<void>(::cudaFree(memory_)); }
    DeviceBytes(DeviceBytes const&) = delete;
    DeviceBytes& operator=(DeviceBytes const&) = delete;

    [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }
    void put(std::int64_t at, Buffer const& bytes) const {
        ASSERT_EQ(
            ::cudaMemcpy(data() + at, bytes.data(), bytes.size(), cudaMemcpyHostToDevice),
            cudaSuccess
        );
    }
    [[nodiscard]] Buffer get() const {
        Buffer bytes(size_);
        EXPECT_EQ(::cudaMemcpy(bytes.data(), memory_, size_, cudaMemcpyDeviceToHost), cudaSuccess);
        return bytes;
    }

  private:
    void* memory_ = nullptr;
    std::size_t size_;
};

bool is_guard(Buffer const& bytes, std::int64_t from) {
    return std::all_of(bytes.begin() + from, bytes.end(), [](std::byte byte) {
        return byte == kGuardByte;
    });
}

struct Coded {
    Buffer block;  ///< its header not written
    std::uint64_t refused = 0;
};

/// `shift`: elements between an aligned address and the raw bytes.
Coded encode_there(Encoding const& encoding, Buffer const& raw, int shift) {
    std::int64_t const at = shift * size_of(encoding.dtype);
    std::int64_t const size = *encoded_bytes(encoding);
    DeviceBytes const from(at + std::ssize(raw) + kGuard);
    DeviceBytes const to(size + kGuard);
    DeviceBytes const refused(sizeof(std::uint64_t));
    from.put(at, raw);
    Result<void> const done = encode_on_gpu(
        encoding,
        {.raw = from.data() + at, .coded = to.data()},
        7,
        reinterpret_cast<std::uint64_t*>(refused.data()),
        nullptr
    );
    EXPECT_TRUE(done.ok()) << done.error().message();
    Coded coded{.block = to.get()};
    EXPECT_TRUE(is_guard(coded.block, size)) << words_of(encoding);
    coded.block.resize(static_cast<std::size_t>(size));
    EXPECT_TRUE(std::all_of(coded.block.begin(), coded.block.begin() + kHeaderBytes, [](auto byte) {
        return byte == kGuardByte;
    })) << words_of(encoding);
    Buffer const bytes = refused.get();
    std::memcpy(&coded.refused, bytes.data(), sizeof coded.refused);
    return coded;
}

Buffer decoded_there(Encoding const& encoding, Buffer const& coded, int shift) {
    std::int64_t const at = shift * size_of(encoding.dtype);
    DeviceBytes const from(std::ssize(coded));
    DeviceBytes const to(at + encoding.raw_bytes() + kGuard);
    from.put(0, coded);
    Result<void> const done =
        decode_on_gpu(encoding, {.raw = to.data() + at, .coded = from.data()}, nullptr);
    EXPECT_TRUE(done.ok()) << done.error().message();
    Buffer const all = to.get();
    EXPECT_TRUE(is_guard(all, at + encoding.raw_bytes())) << words_of(encoding);
    return {all.begin() + at, all.begin() + at + encoding.raw_bytes()};
}

void expect_the_same(Encoding const& encoding, Shape shape, int shift) {
    Buffer const raw = input_for(encoding, shape);
    Buffer const expected = coded_by(encode_reference, encoding, raw);
    Coded coded = encode_there(encoding, raw, shift);
    EXPECT_EQ(coded.refused, kNoneRefused) << words_of(encoding, shape);
    mark_coded(coded.block);
    ASSERT_TRUE(seal_block(encoding, coded.block).ok());
    ASSERT_EQ(coded.block, expected) << words_of(encoding, shape) << ", shift " << shift;
    ASSERT_EQ(
        decoded_there(encoding, expected, shift), decoded_by(decode_reference, encoding, expected)
    ) << words_of(encoding, shape)
      << ", shift " << shift;
}

TEST(CodecKernelsTest, without_a_gpu_or_kernels_it_says_so_in_one_line) {
    if (kernels_are_built() && no_gpu().empty()) {
        GTEST_SKIP() << "there are a GPU and kernels";
    }
    Encoding const encoding{*parse_codec("affine4"), Dtype::f32, 1024};
    alignas(16) std::byte bytes[4096] = {};
    std::uint64_t refused = 3;
    DeviceBlock const block{.raw = bytes, .coded = bytes};
    for (Result<void> const& done :
         {encode_on_gpu(encoding, block, 1, &refused, nullptr),
          decode_on_gpu(encoding, block, nullptr)}) {
        ASSERT_FALSE(done.ok());
        EXPECT_EQ(done.error().code, Errc::unsupported) << done.error().message();
        EXPECT_EQ(done.error().message().find('\n'), std::string::npos);
    }
    EXPECT_EQ(refused, 3U);
}

TEST(CodecKernelsTest, what_no_kernel_can_do_is_refused_before_any_starts) {
    if (!kernels_are_built()) {
        GTEST_SKIP() << "no nvcc compiled the kernels";
    }
    alignas(16) std::byte bytes[4096] = {};
    DeviceBlock const block{.raw = bytes, .coded = bytes};
    DeviceBlock const shifted{.raw = bytes, .coded = bytes + 8};
    DeviceBlock const split{.raw = bytes + 1, .coded = bytes};
    Encoding const fine{*parse_codec("affine4"), Dtype::bf16, 100};
    Codec strange = fine.codec;
    strange.bits = 7;
    auto const code = [](Encoding const& encoding, DeviceBlock const& of) {
        return decode_on_gpu(encoding, of, nullptr).error().code;
    };
    EXPECT_EQ(code(fine, shifted), Errc::bad_argument);
    EXPECT_EQ(code(fine, split), Errc::bad_argument);
    EXPECT_EQ(code({strange, Dtype::f32, 100}, block), Errc::bad_argument);
    EXPECT_EQ(code({fine.codec, Dtype::u8, 100}, block), Errc::unsupported);
    EXPECT_EQ(code({*parse_codec("lossless"), Dtype::f32, 100}, block), Errc::unsupported);
}

TEST(CodecKernelsTest, blocks_are_the_scalar_codecs_bit_by_bit) {
    SPILLWAY_NEEDS_KERNELS();
    for (Codec const& codec : all_codecs()) {
        for (Dtype const dtype : kDtypes) {
            for (std::int64_t const count : {0, 1, 129, 1024, 9 * 1024 + 777}) {
                Encoding const encoding{codec, dtype, count};
                if (takes(encoding) && code_bits(codec) > 0) {
                    expect_the_same(encoding, Shape::normal, 0);
                    expect_the_same(encoding, Shape::normal, 1);
                }
            }
        }
    }
}

TEST(CodecKernelsTest, data_of_every_shape_too) {
    SPILLWAY_NEEDS_KERNELS();
    for (Codec const& codec : all_codecs()) {
        for (Dtype const dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
            for (Shape const shape : kShapes) {
                Encoding const encoding{codec, dtype, 3 * 1024 + 57};
                if (code_bits(codec) > 0) {
                    expect_the_same(encoding, shape, 0);
                }
            }
        }
    }
}

TEST(CodecKernelsTest, many_chunks_at_once) {
    SPILLWAY_NEEDS_KERNELS();
    for (char const* const text :
         {"affine4", "affine3:group=64,absmax,stochastic", "nf4", "mask"}) {
        expect_the_same({*parse_codec(text), Dtype::bf16, 4'000'000 + 3}, Shape::normal, 0);
    }
}

TEST(CodecKernelsTest, the_first_element_that_is_no_number_is_reported) {
    SPILLWAY_NEEDS_KERNELS();
    for (int const shift : {0, 1}) {
        for (char const* const text : {"affine4", "fp8_e4m3", "nf4", "sign"}) {
            Encoding const encoding{*parse_codec(text), Dtype::f32, 50'000};
            Buffer raw = input_for(encoding, Shape::normal);
            put(Dtype::f32, raw, 49'999, INFINITY);
            put(Dtype::f32, raw, 30'001, NAN);
            EXPECT_EQ(encode_there(encoding, raw, shift).refused, 30'001U) << text;
        }
        Encoding const encoding{*parse_codec("mask"), Dtype::bf16, 50'000};
        Buffer raw = input_for(encoding, Shape::normal);
        put(Dtype::bf16, raw, 40'000, 9);
        EXPECT_NE(encode_there(encoding, raw, shift).refused, kNoneRefused);
    }
}

}  // namespace
}  // namespace spillway
