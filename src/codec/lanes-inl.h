// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// arithmetic.h for a vector of elements: included once for each target. Where this names the same
// function, it is the same sequence of roundings.
#if defined(SPILLWAY_CODEC_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_CODEC_LANES_INL
#undef SPILLWAY_CODEC_LANES_INL
#else
#define SPILLWAY_CODEC_LANES_INL
#endif

#include "codec/job.h"
#include "codec/layout.h"

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>

// One lane, or lanes that are counted at run time: the plain kernels do.
#undef SPILLWAY_CODEC_PLAIN
#if HWY_TARGET == HWY_SCALAR || HWY_HAVE_SCALABLE
#define SPILLWAY_CODEC_PLAIN 1
#else
#define SPILLWAY_CODEC_PLAIN 0
#endif

HWY_BEFORE_NAMESPACE();
namespace spillway::HWY_NAMESPACE {
#if !SPILLWAY_CODEC_PLAIN

namespace hn = hwy::HWY_NAMESPACE;

/// At most 16 lanes: half of the smallest group.
using Floats = hn::CappedTag<float, 16>;
using Words = hn::Rebind<std::uint32_t, Floats>;
using Ints = hn::Rebind<std::int32_t, Floats>;
using Halves = hn::Rebind<std::uint16_t, Floats>;
using Octets = hn::Rebind<std::uint8_t, Floats>;
using F = hn::Vec<Floats>;
using W = hn::Vec<Words>;
inline constexpr int kLanes = static_cast<int>(hn::MaxLanes(Floats()));

HWY_INLINE F as_floats(W bits) {
    return hn::BitCast(Floats(), bits);
}
HWY_INLINE W as_words(F values) {
    return hn::BitCast(Words(), values);
}
HWY_INLINE F all(float value) {
    return hn::Set(Floats(), value);
}
HWY_INLINE W all(std::uint32_t word) {
    return hn::Set(Words(), word);
}
/// Of words below 2^31.
HWY_INLINE F to_floats(W words) {
    return hn::ConvertTo(Floats(), hn::BitCast(Ints(), words));
}
/// Of numbers that an int32 has room for, rounded towards 0. Highway's own repairs what is beyond,
/// which x86 takes six instructions for, at each vector.
HWY_INLINE W to_words(F values) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX3
    return W{_mm512_cvttps_epi32(values.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET == HWY_AVX2
    return W{_mm256_cvttps_epi32(values.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_SSE2
    return W{_mm_cvttps_epi32(values.raw)};
#else
    return hn::BitCast(Words(), hn::ConvertTo(Ints(), values));
#endif
}
HWY_INLINE F clamp(F value, F low, F high) {
    return hn::Min(hn::Max(value, low), high);
}

template <int kMantissa, int kBias>
HWY_INLINE W to_small(F value) {
    constexpr int kDropped = 23 - kMantissa;
    constexpr std::uint32_t kLeastNormal = std::uint32_t{128 - kBias} << 23;
    constexpr std::uint32_t kRounder = std::uint32_t{127 + 24 - kBias - kMantissa} << 23;
    W const magnitude = hn::And(as_words(value), all(0x7fffffffU));
    F const stepped = hn::Add(as_floats(magnitude), as_floats(all(kRounder)));
    W const small = hn::Sub(as_words(stepped), all(kRounder));
    W const odd = hn::And(hn::ShiftRight<kDropped>(magnitude), all(1U));
    W const half = hn::Add(odd, all((1U << (kDropped - 1)) - 1));
    W const rounded = hn::ShiftRight<kDropped>(hn::Add(magnitude, half));
    W const normal = hn::Sub(rounded, all(std::uint32_t{127 - kBias} << kMantissa));
    auto const is_small =
        hn::Lt(hn::BitCast(Ints(), magnitude), hn::BitCast(Ints(), all(kLeastNormal)));
    return hn::IfThenElse(hn::RebindMask(Words(), is_small), small, normal);
}

template <int kMantissa, int kBias>
HWY_INLINE F from_small(W code) {
    constexpr std::uint32_t kLeastStep = std::uint32_t{128 - kBias - kMantissa} << 23;
    F const small = hn::Mul(to_floats(code), as_floats(all(kLeastStep)));
    W const exponent = all(std::uint32_t{127 - kBias} << 23);
    F const normal = as_floats(hn::Add(hn::ShiftLeft<23 - kMantissa>(code), exponent));
    auto const is_small =
        hn::Lt(hn::BitCast(Ints(), code), hn::BitCast(Ints(), all(1U << kMantissa)));
    return hn::IfThenElse(hn::RebindMask(Floats(), is_small), small, normal);
}

/// The sign of `value`, at bit `kBit`.
template <int kBit>
HWY_INLINE W sign_at(F value) {
    return hn::And(hn::ShiftRight<31 - kBit>(as_words(value)), all(1U << kBit));
}
template <int kBit>
HWY_INLINE F with_sign_at(F magnitude, W code) {
    W const sign = hn::ShiftLeft<31 - kBit>(hn::And(code, all(1U << kBit)));
    return as_floats(hn::Or(as_words(magnitude), sign));
}

// Elements.

/// Bits of elements from `index` on, each in a word.
template <Dtype kDtype>
HWY_INLINE W load_bits(std::byte const* raw, std::int64_t index) {
    if constexpr (kDtype == Dtype::f32) {
        return hn::LoadU(Words(), reinterpret_cast<std::uint32_t const*>(raw) + index);
    } else if constexpr (kDtype == Dtype::u8) {
        auto const* const octets = reinterpret_cast<std::uint8_t const*>(raw) + index;
        return hn::PromoteTo(Words(), hn::LoadU(Octets(), octets));
    } else {
        auto const* const halves = reinterpret_cast<std::uint16_t const*>(raw) + index;
        return hn::PromoteTo(Words(), hn::LoadU(Halves(), halves));
    }
}

template <Dtype kDtype>
HWY_INLINE F load(std::byte const* raw, std::int64_t index) {
    W const bits = load_bits<kDtype>(raw, index);
    if constexpr (kDtype == Dtype::bf16) {
        return as_floats(hn::ShiftLeft<16>(bits));
    } else if constexpr (kDtype == Dtype::f16) {
        return with_sign_at<15>(from_small<10, 15>(hn::And(bits, all(0x7fffU))), bits);
    } else {
        return as_floats(bits);
    }
}

/// `kPastCaches`: `raw` is aligned to a vector and not read soon.
template <bool kPastCaches, typename Tag, typename Vector, typename Lane>
HWY_INLINE void store_lanes(Tag tag, Vector vector, Lane* to) {
    // A vector of less than 16 bytes has no store of its own past the caches.
    if constexpr (kPastCaches && sizeof(Lane) * static_cast<std::size_t>(kLanes) >= 16) {
        hn::Stream(vector, tag, to);
    } else {
        hn::StoreU(vector, tag, to);
    }
}

template <Dtype kDtype, bool kPastCaches>
HWY_INLINE void store_bits(W bits, std::byte* raw, std::int64_t index) {
    if constexpr (kDtype == Dtype::f32) {
        auto* const to = reinterpret_cast<std::uint32_t*>(raw) + index;
        store_lanes<kPastCaches>(Words(), bits, to);
    } else if constexpr (kDtype == Dtype::u8) {
        auto* const to = reinterpret_cast<std::uint8_t*>(raw) + index;
        store_lanes<kPastCaches>(Octets(), hn::TruncateTo(Octets(), bits), to);
    } else {
        auto* const to = reinterpret_cast<std::uint16_t*>(raw) + index;
        store_lanes<kPastCaches>(Halves(), hn::TruncateTo(Halves(), bits), to);
    }
}

template <Dtype kDtype, bool kPastCaches>
HWY_INLINE void store(F value, std::byte* raw, std::int64_t index) {
    W bits = as_words(value);
    if constexpr (kDtype == Dtype::bf16) {
        W const odd = hn::And(hn::ShiftRight<16>(bits), all(1U));
        bits = hn::ShiftRight<16>(hn::Add(hn::Add(bits, all(0x7fffU)), odd));
    } else if constexpr (kDtype == Dtype::f16) {
        bits = hn::Or(to_small<10, 15>(value), sign_at<15>(value));
    }
    store_bits<kDtype, kPastCaches>(bits, raw, index);
}

// A group's range: its min and max, or its max alone.

template <Dtype kDtype>
HWY_INLINE float load_limit(std::byte const* ranges, std::int64_t index) {
    if constexpr (kDtype == Dtype::f32) {
        float limit = 0;
        std::memcpy(&limit, ranges + index * 4, sizeof limit);
        return limit;
    } else {
        std::uint16_t half = 0;
        std::memcpy(&half, ranges + index * 2, sizeof half);
        return kDtype == Dtype::bf16 ? arithmetic::from_bfloat(half) : arithmetic::from_half(half);
    }
}
template <Dtype kDtype>
HWY_INLINE void store_limit(float limit, std::byte* ranges, std::int64_t index) {
    if constexpr (kDtype == Dtype::f32) {
        std::memcpy(ranges + index * 4, &limit, sizeof limit);
    } else {
        auto const half = static_cast<std::uint16_t>(
            kDtype == Dtype::bf16 ? arithmetic::to_bfloat(limit) : arithmetic::to_half(limit)
        );
        std::memcpy(ranges + index * 2, &half, sizeof half);
    }
}

// Random numbers.

HWY_INLINE W random_bits(W counter, W first, W second) {
    W mixed = hn::Xor(counter, first);
    mixed = hn::Mul(hn::Xor(mixed, hn::ShiftRight<16>(mixed)), all(0x7feb352dU));
    mixed = hn::Add(mixed, second);
    mixed = hn::Mul(hn::Xor(mixed, hn::ShiftRight<15>(mixed)), all(0x846ca68bU));
    return hn::Xor(mixed, hn::ShiftRight<16>(mixed));
}

// Planes of codes, in words that need no alignment.

/// Of a whole chunk. Vectors begin at multiples of their lanes, so that all lanes of one lie in
/// different words at one shift.
struct Plane {
    int width = 0;
    int words = 0;

    explicit Plane(int bits) : width(bits), words(arithmetic::words_of(bits, arithmetic::kChunk)) {}

    [[nodiscard]] HWY_INLINE int shift(int index) const { return index / words * width; }
    [[nodiscard]] HWY_INLINE int word(int index) const { return index & (words - 1); }
};

HWY_INLINE void add_codes(std::uint32_t* words, W codes, int shift) {
    W const moved = hn::ShiftLeftSame(codes, shift);
    hn::StoreU(hn::Or(hn::LoadU(Words(), words), moved), Words(), words);
}
HWY_INLINE W codes_in(std::uint32_t const* words, int shift, W mask) {
    return hn::And(hn::ShiftRightSame(hn::LoadU(Words(), words), shift), mask);
}

#endif  // !SPILLWAY_CODEC_PLAIN
}  // namespace spillway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
