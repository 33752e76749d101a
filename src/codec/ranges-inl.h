// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The ranges of the groups of a chunk, found four groups at a time: what is the same for all
// elements of a group costs as little as one of them. Included once for each target.
#if defined(SPILLWAY_CODEC_RANGES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef SPILLWAY_CODEC_RANGES_INL
#undef SPILLWAY_CODEC_RANGES_INL
#else
#define SPILLWAY_CODEC_RANGES_INL
#endif

#include "codec/lanes-inl.h"

#include <algorithm>
#include <array>

HWY_BEFORE_NAMESPACE();
namespace spillway::HWY_NAMESPACE {
#if !SPILLWAY_CODEC_PLAIN

using arithmetic::kChunk;

/// How far ahead of what is encoded memory is asked for: a chunk of float32.
constexpr std::int64_t kAheadBytes = 4096;

/// A chunk has at most this many groups, and room for a vector of them more.
constexpr int kMostGroups = kChunk / 32;

/// Of each group of a chunk.
struct Ranges {
    alignas(16) float low[kMostGroups + 4];
    alignas(16) float high[kMostGroups + 4];
    alignas(16) float base[kMostGroups + 4];     ///< Scale::base, likewise
    alignas(16) float inverse[kMostGroups + 4];  ///< Scale::inverse, where the group is not rare
    bool rare[kMostGroups];  ///< what encode_group is for: perhaps no number, or an odd range
};

/// Of one group, each lane its own part of it.
struct Lanes {
    F low;
    F high;
    F sum;  ///< of any NaN or infinity is none either
};

template <Dtype kDtype>
HWY_INLINE Lanes lanes_of(std::byte const* raw, int count) {
    F low = load<kDtype>(raw, 0);
    F high = low;
    F sum = hn::Zero(Floats());
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
    return {hn::Min(low, low_too), hn::Max(high, high_too), hn::Add(sum, sum_too)};
}

using Four = hn::FixedTag<float, 4>;
using F4 = hn::Vec<Four>;

struct MinOf {
    template <typename V>
    HWY_INLINE V operator()(V a, V b) const {
        return hn::Min(a, b);
    }
};
struct MaxOf {
    template <typename V>
    HWY_INLINE V operator()(V a, V b) const {
        return hn::Max(a, b);
    }
};
struct SumOf {
    template <typename V>
    HWY_INLINE V operator()(V a, V b) const {
        return hn::Add(a, b);
    }
};

/// Of a vector of 4, 8 or 16 lanes the `of` of those that lie 4 apart.
template <typename Of, typename V>
HWY_INLINE F4 to_four(Of const& of, V lanes) {
    if constexpr (hn::MaxLanes(hn::DFromV<V>()) > 4) {
        hn::Half<hn::DFromV<V> > const half;
        return to_four(of, of(hn::LowerHalf(half, lanes), hn::UpperHalf(half, lanes)));
    } else {
        return lanes;
    }
}

/// The `of` of all lanes of each of the four, in one vector.
template <typename Of>
HWY_INLINE F4 each(Of const& of, F a, F b, F c, F d) {
    Four const tag;
    F4 const a4 = to_four(of, a);
    F4 const b4 = to_four(of, b);
    F4 const c4 = to_four(of, c);
    F4 const d4 = to_four(of, d);
    F4 const ab = of(hn::InterleaveLower(tag, a4, b4), hn::InterleaveUpper(tag, a4, b4));
    F4 const cd = of(hn::InterleaveLower(tag, c4, d4), hn::InterleaveUpper(tag, c4, d4));
    return of(hn::ConcatLowerLower(tag, cd, ab), hn::ConcatUpperUpper(tag, cd, ab));
}

HWY_INLINE void ask_for(std::byte const* raw, std::int64_t bytes) {
    for (std::int64_t i = 0; i < bytes; i += 64) {
        hwy::Prefetch(raw + kAheadBytes + i);
    }
}

/// From the ranges of four groups on, the first of them `first`, what follows: scale_of without
/// what is rare.
HWY_INLINE void scale(Job const& job, int first, Ranges& ranges) {
    Four const tag;
    F4 const low = hn::Load(tag, ranges.low + first);
    F4 const span = hn::Sub(hn::Load(tag, ranges.high + first), low);
    hn::Store(job.symmetric ? hn::Zero(tag) : low, tag, ranges.base + first);
    auto const is_wide = hn::Gt(span, hn::Zero(tag));
    F4 const inverse = hn::Div(hn::Set(tag, job.steps), span);
    hn::Store(hn::IfThenElseZero(is_wide, inverse), tag, ranges.inverse + first);
    auto const is_odd = hn::Or(
        hn::Gt(span, hn::Set(tag, arithmetic::kHuge)),
        hn::And(is_wide, hn::Lt(span, hn::Set(tag, arithmetic::kTiny)))
    );
    alignas(16) float odd[4];
    hn::Store(hn::IfThenElseZero(is_odd, hn::Set(tag, 1.0F)), tag, odd);
    for (int i = 0; i < std::min(4, kChunk / job.group() - first); ++i) {
        ranges.rare[first + i] |= odd[i] != 0;
    }
}

/// The ranges of four groups from `first` on.
template <Dtype kDtype>
HWY_INLINE void find_ranges(
    Job const& job, int first, std::array<Lanes, 4> const& lanes, Ranges& ranges
) {
    Four const tag;
    F4 const zero = hn::Zero(tag);
    auto const& [a, b, c, d] = lanes;
    F4 low = hn::Add(each(MinOf(), a.low, b.low, c.low, d.low), zero);  // no -0
    F4 high = hn::Add(each(MaxOf(), a.high, b.high, c.high, d.high), zero);
    F4 const sum = hn::Mul(each(SumOf(), a.sum, b.sum, c.sum, d.sum), zero);
    alignas(16) float sums[4];
    hn::Store(sum, tag, sums);
    hn::Store(low, tag, ranges.low + first);
    hn::Store(high, tag, ranges.high + first);
    for (int i = 0; i < std::min(4, kChunk / job.group() - first); ++i) {
        bool is_number = sums[i] == 0;
        if constexpr (kDtype == Dtype::f16) {
            is_number = ranges.low[first + i] > -65536.0F && ranges.high[first + i] < 65536.0F;
        }
        ranges.rare[first + i] = !is_number;
    }
    if (job.symmetric) {
        high = hn::Max(hn::Neg(low), high);
        low = hn::Neg(high);
        hn::Store(low, tag, ranges.low + first);
        hn::Store(high, tag, ranges.high + first);
    }
}

/// The ranges of all groups of a chunk, and what follows from them, before any is encoded: nothing
/// that takes long is waited for then. Whether one is rare.
template <Dtype kDtype>
HWY_INLINE bool look_at(Job const& job, std::byte const* raw, std::byte* to, Ranges& ranges) {
    int const group = job.group();
    int const groups = kChunk / group;
    std::int64_t const group_bytes = group * size_of(kDtype);
    bool any_rare = false;
    for (int first = 0; first < groups; first += 4) {
        std::array<Lanes, 4> lanes;
        for (int i = 0; i < 4; ++i) {
            int const at = std::min(first + i, groups - 1);  // a chunk may have fewer than four
            lanes[static_cast<std::size_t>(i)] = lanes_of<kDtype>(raw + at * group_bytes, group);
        }
        find_ranges<kDtype>(job, first, lanes, ranges);
        scale(job, first, ranges);
    }
    for (int i = 0; i < groups; ++i) {
        if (job.symmetric) {
            store_limit<kDtype>(ranges.high[i], to, i);
        } else {
            store_limit<kDtype>(ranges.low[i], to, 2 * i);
            store_limit<kDtype>(ranges.high[i], to, 2 * i + 1);
        }
        any_rare |= ranges.rare[i];
    }
    return any_rare;
}

#endif  // !SPILLWAY_CODEC_PLAIN
}  // namespace spillway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target guard
