// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Groups to codes: one pass over a group for its range, one for its codes while it is in the first
// cache.

// clang-format off: each target includes this file anew by the third line of these
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/encode_groups.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "codec/fast.h"
#include "codec/lanes-inl.h"
#include "codec/reference.h"

#include <algorithm>
#include <array>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace spillway::HWY_NAMESPACE {
namespace {
#if SPILLWAY_CODEC_PLAIN

std::int64_t encode_groups(Job const& job, ChunksToEncode const& chunks) {
    return reference_kernels().encode(job, chunks);
}

#else

using arithmetic::kChunk;
using arithmetic::Key;
using arithmetic::Scale;

/// How far ahead of the group at work memory is asked for.
constexpr std::int64_t kAheadBytes = 4096;

struct Stats {
    float low = 0;
    float high = 0;
    bool numbers = false;  ///< false: perhaps one is none
};

template <Dtype kDtype>
HWY_INLINE Stats stats_of(std::byte const* raw, int count) {
    F low = load<kDtype>(raw, 0);
    F high = low;
    F sum = hn::Zero(Floats());  // of any NaN or infinity is none either
    F low_too = low;
    F high_too = low;
    F sum_too = sum;
    for (int i = 0; i < count; i += 2 * kLanes) {
        F const one = load<kDtype>(raw, i);
        F const two = load<kDtype>(raw, i + kLanes);
        low = hn::Min(low, one);
        high = hn::Max(high, one);
        sum = hn::Add(sum, one);
        low_too = hn::Min(low_too, two);
        high_too = hn::Max(high_too, two);
        sum_too = hn::Add(sum_too, two);
    }
    F const zero = hn::Zero(Floats());
    F const total = hn::Mul(hn::Add(sum, sum_too), zero);
    Stats stats;
    stats.low = hn::GetLane(hn::MinOfLanes(Floats(), hn::Min(low, low_too))) + 0.0F;
    stats.high = hn::GetLane(hn::MaxOfLanes(Floats(), hn::Max(high, high_too))) + 0.0F;
    stats.numbers = hn::AllTrue(Floats(), hn::Eq(total, zero));
    if constexpr (kDtype == Dtype::f16) {
        stats.numbers = stats.low > -65536.0F && stats.high < 65536.0F;
    }
    return stats;
}

template <bool kStochastic>
struct Affine {
    F base;
    F inverse;
    F offset;  ///< rounding to the nearest included
    F top;
    W first;
    W second;

    Affine(Job const& job, Scale const& scale, Key key)
        : base(all(scale.base)),
          inverse(all(scale.inverse)),
          offset(all(kStochastic ? job.offset : job.offset + 0.5F)),
          top(all(job.top)),
          first(all(key.first)),
          second(all(key.second)) {}

    HWY_INLINE W code(F value, F shift) const {
        F const steps = hn::Mul(hn::Sub(value, base), inverse);
        return to_words(clamp(hn::Add(steps, shift), hn::Zero(Floats()), top));
    }
    /// Codes of elements that are 16 apart, the first at `index` of the chunk.
    HWY_INLINE void codes(F one, F two, int index, W& code_one, W& code_two) const {
        F shift_one = offset;
        F shift_two = offset;
        if constexpr (kStochastic) {
            auto const counter = static_cast<std::uint32_t>((index >> 5) * 16 + (index & 15));
            W const bits = random_bits(hn::Iota(Words(), counter), first, second);
            F const unit = all(0x1p-16F);
            F const low = hn::Mul(to_floats(hn::And(bits, all(0xffffU))), unit);
            F const high = hn::Mul(to_floats(hn::ShiftRight<16>(bits)), unit);
            shift_one = hn::Add(offset, low);
            shift_two = hn::Add(offset, high);
        }
        code_one = code(one, shift_one);
        code_two = code(two, shift_two);
    }
};

template <int kMantissa, int kBias>
struct Fp8 {
    F inverse;
    F largest;

    Fp8(Job const& job, Scale const& scale, Key /*key*/)
        : inverse(all(scale.inverse)), largest(all(job.top)) {}

    HWY_INLINE W code(F value) const {
        F const scaled = clamp(hn::Mul(value, inverse), hn::Neg(largest), largest);
        return hn::Or(to_small<kMantissa, kBias>(scaled), sign_at<7>(scaled));
    }
    HWY_INLINE void codes(F one, F two, int /*index*/, W& code_one, W& code_two) const {
        code_one = code(one);
        code_two = code(two);
    }
};

/// arithmetic::nf4_border of every code but the last.
constexpr std::array<float, 15> kBorders = [] {
    std::array<float, 15> borders{};
    for (std::uint32_t i = 0; i < borders.size(); ++i) {
        borders[i] = (arithmetic::nf4_level(i) + arithmetic::nf4_level(i + 1)) * 0.5F;
    }
    return borders;
}();

struct Nf4 {
    F inverse;

    Nf4(Job const& /*job*/, Scale const& scale, Key /*key*/) : inverse(all(scale.inverse)) {}

    HWY_INLINE W code(F value) const {
        F const scaled = hn::Mul(value, inverse);
        W code = hn::Zero(Words());
        for (float const border : kBorders) {
            auto const above = hn::Gt(scaled, all(border));
            code = hn::Sub(code, hn::VecFromMask(Words(), hn::RebindMask(Words(), above)));
        }
        return code;
    }
    HWY_INLINE void codes(F one, F two, int /*index*/, W& code_one, W& code_two) const {
        code_one = code(one);
        code_two = code(two);
    }
};

/// The codes of one plane, or of two where `kTwo`, added to a chunk's words.
template <bool kTwo>
struct Planes {
    Plane low;
    Plane high;
    W low_mask;
    std::uint32_t* words;

    Planes(Job const& job, std::uint32_t* to)
        : low(job.planes.low),
          high(kTwo ? job.planes.high : job.planes.low),
          low_mask(all((1U << job.planes.low) - 1)),
          words(to) {}

    /// Elements from a multiple of it on that have one shift in each plane.
    [[nodiscard]] int run() const { return std::min(low.words, high.words); }

    HWY_INLINE void add(W codes, int index) const {
        if constexpr (kTwo) {
            add_codes(words + low.word(index), hn::And(codes, low_mask), low.shift(index));
            W const rest = hn::ShiftRightSame(codes, low.width);
            add_codes(words + low.words + high.word(index), rest, high.shift(index));
        } else {
            add_codes(words + low.word(index), codes, low.shift(index));
        }
    }
};

template <Dtype kDtype, typename Coder, bool kTwo>
HWY_INLINE void encode_run(
    Coder const& coder, Planes<kTwo> const& planes, std::byte const* raw, int first, int count
) {
    for (int i = first; i < first + count; i += 32) {
        for (int lane = i; lane < i + 16; lane += kLanes) {
            W one = hn::Zero(Words());
            W two = hn::Zero(Words());
            F const value_one = load<kDtype>(raw, lane);
            F const value_two = load<kDtype>(raw, lane + 16);
            coder.codes(value_one, value_two, lane, one, two);
            planes.add(one, lane);
            planes.add(two, lane + 16);
        }
    }
}

HWY_INLINE void ask_for(std::byte const* raw, std::int64_t bytes) {
    for (std::int64_t i = 0; i < bytes; i += 64) {
        hwy::Prefetch(raw + kAheadBytes + i);
    }
}

/// A chunk has at most this many groups.
constexpr int kMostGroups = kChunk / 32;

/// The ranges of all groups of a chunk, and what follows from them, before any is encoded: nothing
/// that takes long is waited for then.
template <Dtype kDtype>
HWY_INLINE void look_at(
    Job const& job, std::byte const* raw, std::byte* ranges, Scale* scales, bool* rare
) {
    int const group = job.group();
    std::int64_t const group_bytes = group * size_of(kDtype);
    Stats stats[kMostGroups];
    for (int i = 0; i < kChunk / group; ++i) {
        ask_for(raw + i * group_bytes, group_bytes);
        stats[i] = stats_of<kDtype>(raw + i * group_bytes, group);
    }
    for (int i = 0; i < kChunk / group; ++i) {
        auto [low, high, numbers] = stats[i];
        if (job.symmetric) {
            high = arithmetic::magnitude_of(low, high);
            low = -high;
            store_limit<kDtype>(high, ranges, i);
        } else {
            store_limit<kDtype>(low, ranges, 2 * i);
            store_limit<kDtype>(high, ranges, 2 * i + 1);
        }
        scales[i] = arithmetic::scale_of(low, high, job.steps, job.symmetric);
        rare[i] = !numbers || scales[i].up != 1.0F;
    }
}

/// Returns the first element that cannot be coded; -1: all are.
template <Dtype kDtype, typename Coder, bool kTwo>
HWY_INLINE int encode_one(
    Job const& job, Key key, std::byte const* raw, std::byte* ranges, std::uint32_t* words
) {
    Planes<kTwo> const planes(job, words);
    int const group = job.group();
    int const run = std::min(group, planes.run());
    Scale scales[kMostGroups];
    bool rare[kMostGroups];
    look_at<kDtype>(job, raw, ranges, scales, rare);
    for (int i = 0; i < kChunk / group; ++i) {
        int const first = i * group;
        if (rare[i]) {
            std::byte* const own_range = ranges + i * range_bytes_of_group(job.codec, kDtype);
            auto* const codes = reinterpret_cast<std::byte*>(words);
            int const bad = encode_group(job, key, {first, group, kChunk}, raw, own_range, codes);
            if (bad >= 0) {
                return bad;
            }
            continue;
        }
        Coder const coder(job, scales[i], key);
        for (int begin = first; begin < first + group; begin += run) {
            encode_run<kDtype>(coder, planes, raw, begin, run);
        }
    }
    return -1;
}

template <Dtype kDtype, typename Coder, bool kTwo>
std::int64_t encode_all(Job const& job, ChunksToEncode const& chunks) {
    alignas(64) std::uint32_t words[kChunk * 8 / 32];
    std::size_t const bytes = static_cast<std::size_t>(kChunk / 8 * code_bits(job.codec));
    std::int64_t const range_bytes = kChunk / job.group() * range_bytes_of_group(job.codec, kDtype);
    for (std::int64_t i = 0; i < chunks.count; ++i) {
        std::memset(words, 0, bytes);
        int const bad = encode_one<kDtype, Coder, kTwo>(
            job,
            arithmetic::key_of(job.seed, chunks.first + i),
            chunks.raw + i * kChunk * size_of(kDtype),
            chunks.ranges + i * range_bytes,
            words
        );
        if (bad >= 0) {
            return i * kChunk + bad;
        }
        std::memcpy(chunks.codes + i * static_cast<std::int64_t>(bytes), words, bytes);
    }
    return -1;
}

template <Dtype kDtype>
std::int64_t encode_kind(Job const& job, ChunksToEncode const& chunks) {
    bool const two = job.planes.high > 0;
    switch (job.codec.kind) {
        case CodecKind::fp8_e4m3:
            return encode_all<kDtype, Fp8<3, 7>, false>(job, chunks);
        case CodecKind::fp8_e5m2:
            return encode_all<kDtype, Fp8<2, 15>, false>(job, chunks);
        case CodecKind::nf4:
            return encode_all<kDtype, Nf4, false>(job, chunks);
        default:
            break;
    }
    if (job.codec.stochastic) {
        return two ? encode_all<kDtype, Affine<true>, true>(job, chunks)
                   : encode_all<kDtype, Affine<true>, false>(job, chunks);
    }
    return two ? encode_all<kDtype, Affine<false>, true>(job, chunks)
               : encode_all<kDtype, Affine<false>, false>(job, chunks);
}

std::int64_t encode_groups(Job const& job, ChunksToEncode const& chunks) {
    switch (job.dtype) {
        case Dtype::bf16:
            return encode_kind<Dtype::bf16>(job, chunks);
        case Dtype::f16:
            return encode_kind<Dtype::f16>(job, chunks);
        case Dtype::f32:
        case Dtype::u8:
            break;
    }
    return encode_kind<Dtype::f32>(job, chunks);
}

#endif  // !SPILLWAY_CODEC_PLAIN
}  // namespace
}  // namespace spillway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::fast {

HWY_EXPORT(encode_groups);

std::int64_t encode_groups(Job const& job, ChunksToEncode const& chunks) {
    return HWY_DYNAMIC_DISPATCH(encode_groups)(job, chunks);
}

}  // namespace spillway::fast
#endif  // HWY_ONCE
