// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Groups to codes: one pass over a chunk for the ranges of its groups, one for its codes while it
// is in the first cache.

// clang-format off: each target includes this file anew by the third line of these
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/encode_groups.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "codec/fast.h"
#include "codec/lanes-inl.h"
#include "codec/ranges-inl.h"
#include "codec/reference.h"

#include <algorithm>
#include <array>
#include <cstdint>
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

template <bool kStochastic>
struct Affine {
    F base;
    F inverse;
    F offset;  ///< rounding to the nearest included
    F top;
    W first;
    W second;

    HWY_INLINE Affine(Job const& job, float base_of_group, float inverse_of_group, Key key)
        : base(all(base_of_group)),
          inverse(all(inverse_of_group)),
          offset(all(kStochastic ? job.offset : job.offset + 0.5F)),
          top(all(job.top)),
          first(all(key.first)),
          second(all(key.second)) {}

    /// To the nearest, no sum is below 0 or above `top` + 1: value - base is at most the span, and
    /// the roundings of a product with `inverse`, steps / span, are far less than the half that is
    /// left. So the reference's clamp changes nothing there.
    HWY_INLINE W code(F value, F shift) const {
        F const steps = hn::Mul(hn::Sub(value, base), inverse);
        F const sum = hn::Add(steps, shift);
        return to_words(kStochastic ? clamp(sum, hn::Zero(Floats()), top) : sum);
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

    HWY_INLINE Fp8(Job const& job, float /*base*/, float inverse_of_group, Key /*key*/)
        : inverse(all(inverse_of_group)), largest(all(job.top)) {}

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

    HWY_INLINE Nf4(Job const& /*job*/, float /*base*/, float inverse_of_group, Key /*key*/)
        : inverse(all(inverse_of_group)) {}

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

/// A chunk of one plane of `kBits` without a rare group, word by word: a vector of words is built
/// from all codes that lie in it before it is stored. The next chunk's memory is asked for bit by
/// bit meanwhile: all of it at once is more than a core can wait for.
template <Dtype kDtype, typename Coder, int kBits>
HWY_INLINE void encode_words(
    Job const& job, Key key, Ranges const& ranges, std::byte const* raw, std::uint32_t* words
) {
    constexpr int kCodes = 32 / kBits;  // in a word
    constexpr int kWords = kChunk / kCodes;
    auto const shift =
        static_cast<int>(hwy::Num0BitsBelowLS1Bit_Nonzero32(static_cast<std::uint32_t>(job.group()))
        );
    constexpr int kSteps = 16 / kLanes;
    std::int64_t const asked_at_once = 32 * size_of(kDtype);
    std::int64_t asked = 0;
    for (int block = 0; block < kWords; block += 32) {
        W one[kSteps];
        W two[kSteps];
        for (int step = 0; step < kSteps; ++step) {
            one[step] = two[step] = hn::Zero(Words());
        }
        for (int code = kCodes - 1; code >= 0; --code) {
            int const first = code * kWords + block;
            int const of = first >> shift;
            ask_for(raw + asked, asked_at_once);
            asked += asked_at_once;
            Coder const coder(job, ranges.base[of], ranges.inverse[of], key);
            for (int step = 0; step < kSteps; ++step) {
                int const index = first + step * kLanes;
                F const value_one = load<kDtype>(raw, index);
                F const value_two = load<kDtype>(raw, index + 16);
                W code_one = hn::Zero(Words());
                W code_two = code_one;
                coder.codes(value_one, value_two, index, code_one, code_two);
                one[step] = hn::Or(hn::ShiftLeft<kBits>(one[step]), code_one);
                two[step] = hn::Or(hn::ShiftLeft<kBits>(two[step]), code_two);
            }
        }
        for (int step = 0; step < kSteps; ++step) {
            hn::StoreU(one[step], Words(), words + block + step * kLanes);
            hn::StoreU(two[step], Words(), words + block + step * kLanes + 16);
        }
    }
}

/// Group by group. Returns the first element that cannot be coded; -1: all are.
template <Dtype kDtype, typename Coder, bool kTwo>
HWY_INLINE int encode_by_group(
    Job const& job,
    Key key,
    Ranges const& ranges,
    std::byte const* raw,
    std::byte* to,
    std::uint32_t* words
) {
    Planes<kTwo> const planes(job, words);
    int const group = job.group();
    int const run = std::min(group, planes.run());
    for (int i = 0; i < kChunk / group; ++i) {
        int const first = i * group;
        ask_for(raw + first * size_of(kDtype), group * size_of(kDtype));
        if (ranges.rare[i]) {
            std::byte* const own_range = to + i * range_bytes_of_group(job.codec, kDtype);
            auto* const codes = reinterpret_cast<std::byte*>(words);
            int const bad = encode_group(job, key, {first, group, kChunk}, raw, own_range, codes);
            if (bad >= 0) {
                return bad;
            }
            continue;
        }
        Coder const coder(job, ranges.base[i], ranges.inverse[i], key);
        for (int begin = first; begin < first + group; begin += run) {
            encode_run<kDtype>(coder, planes, raw, begin, run);
        }
    }
    return -1;
}

/// Returns the first element that cannot be coded; -1: all are. `words`: with room for the codes.
template <Dtype kDtype, typename Coder, bool kTwo>
HWY_INLINE int encode_one(
    Job const& job, Key key, std::byte const* raw, std::byte* to, std::uint32_t* words
) {
    Ranges ranges;
    bool const any_rare = look_at<kDtype>(job, raw, to, ranges);
    if constexpr (!kTwo) {
        switch (any_rare ? 0 : job.planes.low) {
            case 2:
                encode_words<kDtype, Coder, 2>(job, key, ranges, raw, words);
                return -1;
            case 4:
                encode_words<kDtype, Coder, 4>(job, key, ranges, raw, words);
                return -1;
            case 8:
                encode_words<kDtype, Coder, 8>(job, key, ranges, raw, words);
                return -1;
            default:
                break;
        }
    }
    std::memset(words, 0, static_cast<std::size_t>(kChunk / 8 * code_bits(job.codec)));
    return encode_by_group<kDtype, Coder, kTwo>(job, key, ranges, raw, to, words);
}

template <Dtype kDtype, typename Coder, bool kTwo>
std::int64_t encode_all(Job const& job, ChunksToEncode const& chunks) {
    alignas(64) std::uint32_t own_words[kChunk * 8 / 32];
    std::size_t const bytes = static_cast<std::size_t>(kChunk / 8 * code_bits(job.codec));
    std::int64_t const range_bytes = kChunk / job.group() * range_bytes_of_group(job.codec, kDtype);
    bool const is_aligned =
        reinterpret_cast<std::uintptr_t>(chunks.codes) % sizeof(*own_words) == 0;
    for (std::int64_t i = 0; i < chunks.count; ++i) {
        std::byte* const codes = chunks.codes + i * static_cast<std::int64_t>(bytes);
        auto* const words = is_aligned ? reinterpret_cast<std::uint32_t*>(codes) : own_words;
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
        if (!is_aligned) {
            std::memcpy(codes, words, bytes);
        }
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
