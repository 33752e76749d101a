// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Groups to codes: one pass over a group for its ends, one for its codes while it is in the first
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

template <Element kElement>
HWY_INLINE Stats stats_of(std::byte const* raw, int count) {
    F low = load<kElement>(raw, 0);
    F high = low;
    F sum = hn::Zero(Floats());  // of any NaN or infinity is none either
    F low_too = low;
    F high_too = low;
    F sum_too = sum;
    for (int i = 0; i < count; i += 2 * kLanes) {
        F const one = load<kElement>(raw, i);
        F const two = load<kElement>(raw, i + kLanes);
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
    if constexpr (kElement == Element::f16) {
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

struct Nf4 {
    F inverse;

    Nf4(Job const& /*job*/, Scale const& scale, Key /*key*/) : inverse(all(scale.inverse)) {}

    HWY_INLINE W code(F value) const {
        F const scaled = hn::Mul(value, inverse);
        W code = hn::Zero(Words());
        for (std::uint32_t i = 0; i < 15; ++i) {
            auto const above = hn::Gt(scaled, all(arithmetic::nf4_border(i)));
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

template <Element kElement, typename Coder, bool kTwo>
HWY_INLINE void encode_run(
    Coder const& coder, Planes<kTwo> const& planes, std::byte const* raw, int first, int count
) {
    for (int i = first; i < first + count; i += 32) {
        for (int lane = i; lane < i + 16; lane += kLanes) {
            W one = hn::Undefined(Words());
            W two = hn::Undefined(Words());
            F const value_one = load<kElement>(raw, lane);
            F const value_two = load<kElement>(raw, lane + 16);
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

/// Returns the first element that cannot be coded; -1: all are.
template <Element kElement, typename Coder, bool kTwo>
HWY_INLINE int encode_one(
    Job const& job, Key key, std::byte const* raw, std::byte* ends, std::uint32_t* words
) {
    Planes<kTwo> const planes(job, words);
    int const group = job.group();
    int const run = std::min(group, planes.run());
    std::int64_t const ends_bytes = ends_of_group(job.codec, kElement);
    std::int64_t const group_bytes = group * size_of(kElement);
    for (int first = 0; first < kChunk; first += group, ends += ends_bytes) {
        std::byte const* const at = raw + first * size_of(kElement);
        ask_for(at, group_bytes);
        Stats stats = stats_of<kElement>(at, group);
        if (job.centred) {
            stats.high = arithmetic::magnitude_of(stats.low, stats.high);
            stats.low = -stats.high;
        }
        Scale const scale = arithmetic::scale_of(stats.low, stats.high, job.steps, job.centred);
        if (!stats.numbers || scale.up != 1.0F) {
            Group const rare{first, group, kChunk};
            auto* const codes = reinterpret_cast<std::byte*>(words);
            int const bad = encode_group(job, key, rare, raw, ends, codes);
            if (bad >= 0) {
                return bad;
            }
            continue;
        }
        put_value(kElement, ends, 0, job.centred ? stats.high : stats.low);
        if (!job.centred) {
            put_value(kElement, ends, 1, stats.high);
        }
        Coder const coder(job, scale, key);
        for (int i = first; i < first + group; i += run) {
            encode_run<kElement>(coder, planes, raw, i, run);
        }
    }
    return -1;
}

template <Element kElement, typename Coder, bool kTwo>
std::int64_t encode_all(Job const& job, ChunksToEncode const& chunks) {
    alignas(64) std::uint32_t words[kChunk * 8 / 32];
    std::size_t const bytes = static_cast<std::size_t>(kChunk / 8 * code_bits(job.codec));
    std::int64_t const ends = kChunk / job.group() * ends_of_group(job.codec, kElement);
    for (std::int64_t i = 0; i < chunks.count; ++i) {
        std::memset(words, 0, bytes);
        int const bad = encode_one<kElement, Coder, kTwo>(
            job,
            arithmetic::key_of(job.seed, chunks.first + i),
            chunks.raw + i * kChunk * size_of(kElement),
            chunks.ends + i * ends,
            words
        );
        if (bad >= 0) {
            return i * kChunk + bad;
        }
        std::memcpy(chunks.codes + i * static_cast<std::int64_t>(bytes), words, bytes);
    }
    return -1;
}

template <Element kElement>
std::int64_t encode_kind(Job const& job, ChunksToEncode const& chunks) {
    bool const two = job.planes.high > 0;
    switch (job.codec.kind) {
        case CodecKind::fp8_e4m3:
            return encode_all<kElement, Fp8<3, 7>, false>(job, chunks);
        case CodecKind::fp8_e5m2:
            return encode_all<kElement, Fp8<2, 15>, false>(job, chunks);
        case CodecKind::nf4:
            return encode_all<kElement, Nf4, false>(job, chunks);
        default:
            break;
    }
    if (job.codec.stochastic) {
        return two ? encode_all<kElement, Affine<true>, true>(job, chunks)
                   : encode_all<kElement, Affine<true>, false>(job, chunks);
    }
    return two ? encode_all<kElement, Affine<false>, true>(job, chunks)
               : encode_all<kElement, Affine<false>, false>(job, chunks);
}

std::int64_t encode_groups(Job const& job, ChunksToEncode const& chunks) {
    switch (job.element) {
        case Element::bf16:
            return encode_kind<Element::bf16>(job, chunks);
        case Element::f16:
            return encode_kind<Element::f16>(job, chunks);
        case Element::f32:
        case Element::u8:
            break;
    }
    return encode_kind<Element::f32>(job, chunks);
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
