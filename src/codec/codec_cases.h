// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the codecs' tests go through: every codec, element, count and shape of data.
#pragma once

#include "codec/arithmetic.h"
#include "codec/codec.h"
#include "codec/layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace spillway {

using Buffer = std::vector<std::byte>;

inline std::vector<Codec> all_codecs() {
    std::vector<Codec> codecs;
    for (char const* const text :
         {"identity",
          "mask",
          "sign",
          "lossless",
          "fp8_e4m3",
          "fp8_e4m3:group=32",
          "fp8_e5m2:group=1024",
          "nf4",
          "nf4:group=32"}) {
        codecs.push_back(*parse_codec(text));
    }
    for (char const* const bits : {"2", "3", "4", "5", "6", "8"}) {
        std::string const name = std::string("affine") + bits;
        for (char const* const rest :
             {"", ":absmax", ":stochastic", ":absmax,stochastic", ":group=32", ":group=1024"}) {
            codecs.push_back(*parse_codec(name + rest));
        }
        codecs.push_back(*parse_codec(name + ":group=32,absmax,stochastic"));
    }
    return codecs;
}

inline constexpr std::array kDtypes{Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::u8};

enum class Shape {
    normal,
    constant,
    zeros,
    huge_range,
    subnormal,
    tiny,
    outlier,
    negative_zero,
    far_from_zero,
    spaced,
};
inline constexpr std::array kShapes{
    Shape::normal,
    Shape::constant,
    Shape::zeros,
    Shape::huge_range,
    Shape::subnormal,
    Shape::tiny,
    Shape::outlier,
    Shape::negative_zero,
    Shape::far_from_zero,
    Shape::spaced};

/// The largest number of an dtype.
inline float largest_of(Dtype dtype) {
    if (dtype == Dtype::f16) {
        return 65504.0F;
    }
    return dtype == Dtype::bf16 ? 0x1.fep127F : 0x1.fffffep127F;
}

inline float next_value(Shape shape, Dtype dtype, std::mt19937& random, std::int64_t index) {
    float const normal = std::normal_distribution<float>{}(random);
    float const least = dtype == Dtype::f16    ? 0x1p-24F
                        : dtype == Dtype::bf16 ? 0x1p-133F
                                               : 0x1p-149F;
    switch (shape) {
        case Shape::normal:
            return normal;
        case Shape::constant:
            return 1.375F;
        case Shape::zeros:
            return 0;
        case Shape::huge_range:
            return largest_of(dtype) * std::clamp(normal, -1.0F, 1.0F);
        case Shape::subnormal:
            return least * std::round(normal * 9);
        case Shape::tiny:
            return dtype == Dtype::f16 ? least * 40 * normal : normal * 0x1p-100F;
        case Shape::outlier:
            return index % 97 == 50 ? 3000.0F : normal;
        case Shape::negative_zero:
            return index % 3 == 0 ? -0.0F : index % 3 == 1 ? 0.0F : -std::abs(normal);
        case Shape::far_from_zero:
            return 1000.0F + normal;
        case Shape::spaced:
            break;
    }
    return static_cast<float>(index % 16) - 4.0F;
}

inline void put(Dtype dtype, Buffer& raw, std::int64_t index, float value) {
    std::uint32_t bits = arithmetic::bits_of(value);
    if (dtype == Dtype::bf16) {
        bits = arithmetic::to_bfloat(std::clamp(value, -0x1.fep127F, 0x1.fep127F));
    } else if (dtype == Dtype::f16) {
        bits = arithmetic::to_half(value);
    } else if (dtype == Dtype::u8) {
        bits &= 0xffU;
    }
    auto const size = static_cast<std::size_t>(size_of(dtype));
    std::memcpy(raw.data() + static_cast<std::size_t>(index) * size, &bits, size);
}

inline float get(Dtype dtype, Buffer const& raw, std::int64_t index) {
    std::uint32_t bits = 0;
    auto const size = static_cast<std::size_t>(size_of(dtype));
    std::memcpy(&bits, raw.data() + static_cast<std::size_t>(index) * size, size);
    if (dtype == Dtype::bf16) {
        return arithmetic::from_bfloat(bits);
    }
    return dtype == Dtype::f16 ? arithmetic::from_half(bits) : arithmetic::float_of(bits);
}

inline Buffer values_of(Shape shape, Dtype dtype, std::int64_t count, unsigned seed = 1) {
    std::mt19937 random(seed);
    Buffer raw(static_cast<std::size_t>(count * size_of(dtype)));
    for (std::int64_t i = 0; i < count; ++i) {
        put(dtype, raw, i, next_value(shape, dtype, random, i));
    }
    return raw;
}

/// The same with only 0 and one other value, for `mask`.
inline Buffer mask_of(Dtype dtype, std::int64_t count, float other = 1.25F) {
    std::mt19937 random(5);
    Buffer raw(static_cast<std::size_t>(count * size_of(dtype)));
    for (std::int64_t i = 0; i < count; ++i) {
        put(dtype, raw, i, random() % 10 == 0 ? 0 : other);
    }
    if (dtype == Dtype::u8) {
        for (std::byte& byte : raw) {
            byte = random() % 10 == 0 ? std::byte{} : std::byte{1};
        }
    }
    return raw;
}

inline bool takes(Encoding const& encoding) {
    return encoded_bytes(encoding).ok();
}

/// Bytes that `codec` can encode.
inline Buffer input_for(Encoding const& encoding, Shape shape) {
    return encoding.codec.kind == CodecKind::mask
               ? mask_of(encoding.dtype, encoding.count)
               : values_of(shape, encoding.dtype, encoding.count);
}

inline Buffer coded_by(
    decltype(encode) form, Encoding const& encoding, Buffer const& raw, std::uint64_t seed = 7
) {
    Buffer coded(static_cast<std::size_t>(*encoded_bytes(encoding)), std::byte{0xa5});
    Result<std::int64_t> const size = form(encoding, raw, coded, seed);
    coded.resize(size.ok() ? static_cast<std::size_t>(*size) : 0);
    return coded;
}

/// What a device leaves in the header's place: that it coded every element, or `refused`.
inline void mark_coded(std::span<std::byte> coded, std::uint64_t refused = kNoneRefused) {
    std::memcpy(coded.data(), &refused, sizeof refused);
}

inline Buffer decoded_by(decltype(decode) form, Encoding const& encoding, Buffer const& coded) {
    Buffer raw(static_cast<std::size_t>(encoding.raw_bytes()), std::byte{0xa5});
    Result<void> const done = form(encoding, coded, raw);
    raw.resize(done.ok() ? raw.size() : 0);
    return raw;
}

inline std::string words_of(Encoding const& encoding, Shape shape = Shape::normal) {
    return to_text(encoding.codec) + " of " + std::to_string(encoding.count) + " " +
           std::string(name_of(encoding.dtype)) + ", data " +
           std::to_string(static_cast<int>(shape));
}

}  // namespace spillway
