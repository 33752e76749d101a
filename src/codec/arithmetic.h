// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the codecs compute for one element, the same on the host and in CUDA kernels: nothing here
// calls what a GPU lacks, and no product is ever fused with a sum, so that every form gives the
// same bits. The folder compiles with -ffp-contract=off for the host's part of that.
#pragma once

#include "base/random.h"

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define SPILLWAY_ANYWHERE __host__ __device__ inline
#else
#define SPILLWAY_ANYWHERE inline
#endif

namespace spillway::arithmetic {

/// Elements that are packed together; groups divide it.
inline constexpr int kChunk = 1024;

SPILLWAY_ANYWHERE std::uint32_t bits_of(float value) {
    std::uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
SPILLWAY_ANYWHERE float float_of(std::uint32_t bits) {
    float value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#ifdef __CUDA_ARCH__
SPILLWAY_ANYWHERE float times(float a, float b) {
    return __fmul_rn(a, b);
}
SPILLWAY_ANYWHERE float plus(float a, float b) {
    return __fadd_rn(a, b);
}
SPILLWAY_ANYWHERE float minus(float a, float b) {
    return __fsub_rn(a, b);
}
SPILLWAY_ANYWHERE float over(float a, float b) {
    return __fdiv_rn(a, b);
}
SPILLWAY_ANYWHERE float clamp(float value, float low, float high) {
    return fminf(fmaxf(value, low), high);  // differs at NaN and at -0 with `low` 0: neither occurs
}
#else
SPILLWAY_ANYWHERE float times(float a, float b) {
    return a * b;
}
SPILLWAY_ANYWHERE float plus(float a, float b) {
    return a + b;
}
SPILLWAY_ANYWHERE float minus(float a, float b) {
    return a - b;
}
SPILLWAY_ANYWHERE float over(float a, float b) {
    return a / b;
}
SPILLWAY_ANYWHERE float clamp(float value, float low, float high) {
    float const raised = value < low ? low : value;
    return high < raised ? high : raised;
}
#endif

// Floats of fewer bits: kMantissa bits after a sign and an exponent of bias kBias. Half is 10 and
// 15, e4m3 3 and 7, e5m2 2 and 15.

/// The code without its sign of the nearest such float, ties to even. `value` lies within what the
/// format can hold.
template <int kMantissa, int kBias>
SPILLWAY_ANYWHERE std::uint32_t to_small(float value) {
    constexpr int kDropped = 23 - kMantissa;
    constexpr std::uint32_t kLeastNormal = std::uint32_t{128 - kBias} << 23;
    // A float whose last bit is the format's least step: a sum with it rounds to such steps.
    constexpr std::uint32_t kRounder = std::uint32_t{127 + 24 - kBias - kMantissa} << 23;
    std::uint32_t const magnitude = bits_of(value) & 0x7fffffffU;
    if (magnitude < kLeastNormal) {
        return bits_of(plus(float_of(magnitude), float_of(kRounder))) - kRounder;
    }
    std::uint32_t const half = (1U << (kDropped - 1)) - 1 + ((magnitude >> kDropped) & 1U);
    return ((magnitude + half) >> kDropped) - (std::uint32_t{127 - kBias} << kMantissa);
}

/// The magnitude of a code without its sign. An infinity or NaN of half becomes 65536 or more.
template <int kMantissa, int kBias>
SPILLWAY_ANYWHERE float from_small(std::uint32_t code) {
    if (code < (1U << kMantissa)) {
        constexpr std::uint32_t kLeastStep = std::uint32_t{128 - kBias - kMantissa} << 23;
        return times(static_cast<float>(code), float_of(kLeastStep));
    }
    return float_of((code << (23 - kMantissa)) + (std::uint32_t{127 - kBias} << 23));
}

SPILLWAY_ANYWHERE std::uint32_t sign_of(float value) {
    return bits_of(value) >> 31;
}
SPILLWAY_ANYWHERE float with_sign(float magnitude, std::uint32_t sign) {
    return float_of(bits_of(magnitude) | (sign << 31));
}

SPILLWAY_ANYWHERE std::uint32_t to_half(float value) {
    return to_small<10, 15>(value) | (sign_of(value) << 15);
}
SPILLWAY_ANYWHERE float from_half(std::uint32_t half) {
    return with_sign(from_small<10, 15>(half & 0x7fffU), half >> 15);
}
SPILLWAY_ANYWHERE std::uint32_t to_bfloat(float value) {
    std::uint32_t const bits = bits_of(value);
    return (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
}
SPILLWAY_ANYWHERE float from_bfloat(std::uint32_t bfloat) {
    return float_of(bfloat << 16);
}

// A group: what its elements share.

/// Between `low` and `high` lie `steps` equal steps; `base` is where their count starts. A group
/// whose span float32 cannot hold, or whose steps would be subnormal, is computed times `up`, a
/// power of two, and what is decoded times `down`; in all others both are 1.
struct Scale {
    float up = 1;
    float down = 1;
    float base = 0;
    float step = 0;
    float inverse = 0;  ///< 1 / step; 0 for a group of equal elements
    float low = 0;
    float high = 0;
};

/// The larger magnitude of a min and a max that are not -0.
SPILLWAY_ANYWHERE float magnitude_of(float low, float high) {
    return -low > high ? -low : high;
}

/// A span beyond these has another `up` than 1.
inline constexpr float kHuge = 0x1p126F;
inline constexpr float kTiny = 0x1p-64F;

/// `symmetric`: low = -high, and codes count from 0.
SPILLWAY_ANYWHERE Scale scale_of(float low, float high, float steps, bool symmetric) {
    Scale scale;
    scale.low = low;
    scale.high = high;
    float const span = minus(high, low);
    if (!(span > 0)) {
        scale.base = symmetric ? 0 : low;
        scale.low = symmetric ? -1.0F : low;  // a bound that zero of either sign lies within
        scale.high = symmetric ? 1.0F : high;
        return scale;
    }
    if (span > kHuge) {
        scale.up = 0.25F;
        scale.down = 4.0F;
    } else if (span < kTiny) {
        scale.up = 0x1p64F;
        scale.down = 0x1p-64F;
    }
    float const first = times(low, scale.up);
    float const covered = minus(times(high, scale.up), first);
    scale.base = symmetric ? 0 : first;
    scale.step = over(covered, steps);
    scale.inverse = over(steps, covered);
    return scale;
}

// Affine: codes 0 to `top`, of which `offset` stands for `base`.

/// `rounding`: 0.5 for the nearest code, a random number of [0, 1) for one that is right on
/// average.
SPILLWAY_ANYWHERE std::uint32_t affine_code(
    float value, Scale const& scale, float offset, float top, float rounding
) {
    float const steps = times(minus(times(value, scale.up), scale.base), scale.inverse);
    return static_cast<std::uint32_t>(clamp(plus(steps, plus(offset, rounding)), 0, top));
}
SPILLWAY_ANYWHERE float affine_value(std::uint32_t code, Scale const& scale, float offset) {
    float const steps = minus(static_cast<float>(code), offset);
    float const value = plus(times(steps, scale.step), scale.base);
    return clamp(times(value, scale.down), scale.low, scale.high);
}

// 8-bit floats: `largest` is the format's, and the group's largest magnitude becomes it.

template <int kMantissa, int kBias>
SPILLWAY_ANYWHERE std::uint32_t fp8_code(float value, Scale const& scale, float largest) {
    float const scaled = clamp(times(times(value, scale.up), scale.inverse), -largest, largest);
    return to_small<kMantissa, kBias>(scaled) | (sign_of(scaled) << 7);
}
template <int kMantissa, int kBias>
SPILLWAY_ANYWHERE float fp8_value(std::uint32_t code, Scale const& scale) {
    float const scaled = with_sign(from_small<kMantissa, kBias>(code & 0x7fU), code >> 7);
    return clamp(times(times(scaled, scale.step), scale.down), scale.low, scale.high);
}

// NF4: the quantiles of a normal distribution between -1 and 1, 0 among them.
// Source  Dettmers et al., QLoRA, NeurIPS 2023, appendix E

SPILLWAY_ANYWHERE constexpr float nf4_level(std::uint32_t code) {
    constexpr float kLevels[16] = {
        -1.0F,
        -0.6961928009986877F,
        -0.5250730514526367F,
        -0.39491748809814453F,
        -0.28444138169288635F,
        -0.18477343022823334F,
        -0.09105003625154495F,
        0.0F,
        0.07958029955625534F,
        0.16093020141124725F,
        0.24611230194568634F,
        0.33791524171829224F,
        0.44070982933044434F,
        0.5626170039176941F,
        0.7229568362236023F,
        1.0F};
    return kLevels[code & 15U];
}
/// Above it the level `code` + 1 is nearer than `code`.
SPILLWAY_ANYWHERE float nf4_border(std::uint32_t code) {
    return times(plus(nf4_level(code), nf4_level(code + 1)), 0.5F);
}
SPILLWAY_ANYWHERE std::uint32_t nf4_code(float value, Scale const& scale) {
    float const scaled = times(times(value, scale.up), scale.inverse);
    std::uint32_t code = 0;
    for (std::uint32_t i = 0; i < 15; ++i) {
        code += scaled > nf4_border(i) ? 1U : 0U;
    }
    return code;
}
SPILLWAY_ANYWHERE float nf4_value(std::uint32_t code, Scale const& scale) {
    float const value = times(times(nf4_level(code), scale.step), scale.down);
    return clamp(value, scale.low, scale.high);
}

// Random numbers by counting: a function of (seed, index) alone.

/// Of one chunk.
struct Key {
    std::uint32_t first = 0;
    std::uint32_t second = 0;
};

SPILLWAY_ANYWHERE Key key_of(std::uint64_t seed, std::int64_t chunk) {
    std::uint64_t const bits =
        mixed(seed + static_cast<std::uint64_t>(chunk) * 0x9e3779b97f4a7c15U);
    return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
}

/// 32 random bits. Two multiplications, after Wellons' search for such constants (lowbias32), with
/// the second half of the key between them.
SPILLWAY_ANYWHERE std::uint32_t random_bits(Key key, std::uint32_t counter) {
    std::uint32_t mixed = counter ^ key.first;
    mixed = (mixed ^ (mixed >> 16)) * 0x7feb352dU;
    mixed += key.second;
    mixed = (mixed ^ (mixed >> 15)) * 0x846ca68bU;
    return mixed ^ (mixed >> 16);
}

/// Of [0, 1), for element `index` of the chunk. Elements 16 apart share a number's two halves.
SPILLWAY_ANYWHERE float random_rounding(Key key, int index) {
    auto const counter = static_cast<std::uint32_t>((index >> 5) * 16 + (index & 15));
    std::uint32_t const bits = random_bits(key, counter);
    std::uint32_t const half = (index & 16) == 0 ? bits & 0xffffU : bits >> 16;
    return times(static_cast<float>(half), 0x1p-16F);
}

// Where codes lie.

/// A code of `bits` bits is cut into planes whose widths divide 32: its low bits and the rest.
struct Planes {
    int low = 0;
    int high = 0;  ///< 0: there is one plane
};
SPILLWAY_ANYWHERE Planes planes_of(int bits) {
    if (bits == 3) {
        return {2, 1};
    }
    if (bits == 5 || bits == 6) {
        return {4, bits - 4};
    }
    return {bits, 0};
}

/// Words of 32 bits that a plane takes in a chunk with room for `room` elements.
SPILLWAY_ANYWHERE int words_of(int width, int room) {
    return room / 32 * width;
}

/// Elements that lie `words` apart share a word, the first in its lowest bits: what SIMD and warps
/// pack without moving anything across lanes.
struct Position {
    int word = 0;
    int shift = 0;
};
SPILLWAY_ANYWHERE Position position_of(int index, int width, int room) {
    int const words = words_of(width, room);
    return {index % words, index / words * width};
}

}  // namespace spillway::arithmetic
