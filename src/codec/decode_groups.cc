// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Codes back to groups of elements.

// clang-format off: each target includes this file anew by the third line of these
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/decode_groups.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "codec/fast.h"
#include "codec/lanes-inl.h"
#include "codec/reference.h"

#include <algorithm>
#include <array>

HWY_BEFORE_NAMESPACE();
namespace spillway::HWY_NAMESPACE {
namespace {
#if SPILLWAY_CODEC_PLAIN

void decode_groups(Job const& job, ChunksToDecode const& chunks) {
    reference_kernels().decode(job, chunks);
}

#else

using arithmetic::kChunk;
using arithmetic::Scale;

/// What every kind needs of its group.
struct Grid {
    F base;
    F step;
    F low;
    F high;
    F offset;

    Grid(Job const& job, Scale const& scale)
        : base(all(scale.base)),
          step(all(scale.step)),
          low(all(scale.low)),
          high(all(scale.high)),
          offset(all(job.offset)) {}
};

struct Affine {
    static HWY_INLINE F value(Grid const& grid, W code) {
        F const steps = hn::Sub(to_floats(code), grid.offset);
        F const value = hn::Add(hn::Mul(steps, grid.step), grid.base);
        return clamp(value, grid.low, grid.high);
    }
};

template <int kMantissa, int kBias>
struct Fp8 {
    static HWY_INLINE F value(Grid const& grid, W code) {
        F const magnitude = from_small<kMantissa, kBias>(hn::And(code, all(0x7fU)));
        F const scaled = with_sign_at<7>(magnitude, code);
        return clamp(hn::Mul(scaled, grid.step), grid.low, grid.high);
    }
};

/// arithmetic::nf4_level of every code.
constexpr std::array<float, 16> kLevels = [] {
    std::array<float, 16> levels{};
    for (std::uint32_t i = 0; i < levels.size(); ++i) {
        levels[i] = arithmetic::nf4_level(i);
    }
    return levels;
}();

struct Nf4 {
    static HWY_INLINE F value(Grid const& grid, W code) {
        return clamp(hn::Mul(level(code), grid.step), grid.low, grid.high);
    }
    static HWY_INLINE F level(W code) {
        if constexpr (kLanes == 16) {
            F const levels = hn::LoadU(Floats(), kLevels.data());
            return hn::TableLookupLanes(levels, hn::IndicesFromVec(Floats(), code));
        } else {
            return hn::GatherIndex(Floats(), kLevels.data(), hn::BitCast(Ints(), code));
        }
    }
};

/// The codes of one plane, or of two where `kTwo`, read from a chunk's words.
template <bool kTwo>
struct Planes {
    Plane low;
    Plane high;
    W low_mask;
    W high_mask;
    std::uint32_t const* words;

    Planes(Job const& job, std::byte const* codes)
        : low(job.planes.low),
          high(kTwo ? job.planes.high : job.planes.low),
          low_mask(all((1U << job.planes.low) - 1)),
          high_mask(all((1U << job.planes.high) - 1)),
          words(reinterpret_cast<std::uint32_t const*>(codes)) {}

    /// Elements from a multiple of it on that have one shift in each plane.
    [[nodiscard]] int run() const { return std::min(low.words, high.words); }

    [[nodiscard]] HWY_INLINE W codes(int index) const {
        W const first = codes_in(words + low.word(index), low.shift(index), low_mask);
        if constexpr (kTwo) {
            std::uint32_t const* const second = words + low.words + high.word(index);
            W const rest = codes_in(second, high.shift(index), high_mask);
            return hn::Or(first, hn::ShiftLeftSame(rest, low.width));
        } else {
            return first;
        }
    }
};

template <Dtype kDtype, typename Coder, bool kTwo, bool kPastCaches>
HWY_INLINE void decode_one(
    Job const& job, std::byte const* ranges, std::byte const* codes, std::byte* raw
) {
    Planes<kTwo> const planes(job, codes);
    int const group = job.group();
    int const run = std::min(group, planes.run());
    std::int64_t const range_bytes = range_bytes_of_group(job.codec, kDtype);
    for (int first = 0; first < kChunk; first += group, ranges += range_bytes) {
        float const stored = load_limit<kDtype>(ranges, 0);
        float const high = job.symmetric ? stored : load_limit<kDtype>(ranges, 1);
        float const low = job.symmetric ? -stored : stored;
        Scale const scale = arithmetic::scale_of(low, high, job.steps, job.symmetric);
        if (scale.up != 1.0F) {
            decode_group(job, {first, group, kChunk}, ranges, codes, raw);
            continue;
        }
        Grid const grid(job, scale);
        for (int begin = first; begin < first + group; begin += run) {
            for (int i = begin; i < begin + run; i += kLanes) {
                F const value = Coder::value(grid, planes.codes(i));
                store<kDtype, kPastCaches>(value, raw, i);
            }
        }
    }
}

template <Dtype kDtype, typename Coder, bool kTwo, bool kPastCaches>
void decode_all(Job const& job, ChunksToDecode const& chunks) {
    std::int64_t const range_bytes = kChunk / job.group() * range_bytes_of_group(job.codec, kDtype);
    std::int64_t const codes = kChunk / 8 * code_bits(job.codec);
    for (std::int64_t i = 0; i < chunks.count; ++i) {
        decode_one<kDtype, Coder, kTwo, kPastCaches>(
            job,
            chunks.ranges + i * range_bytes,
            chunks.codes + i * codes,
            chunks.raw + i * kChunk * size_of(kDtype)
        );
    }
    if constexpr (kPastCaches) {
        hwy::FlushStream();
    }
}

template <Dtype kDtype, typename Coder, bool kTwo>
void decode_either(Job const& job, ChunksToDecode const& chunks) {
    bool const aligned = reinterpret_cast<std::uintptr_t>(chunks.raw) % 64 == 0;
    if (chunks.past_caches && aligned) {
        decode_all<kDtype, Coder, kTwo, true>(job, chunks);
    } else {
        decode_all<kDtype, Coder, kTwo, false>(job, chunks);
    }
}

template <Dtype kDtype>
void decode_kind(Job const& job, ChunksToDecode const& chunks) {
    switch (job.codec.kind) {
        case CodecKind::fp8_e4m3:
            return decode_either<kDtype, Fp8<3, 7>, false>(job, chunks);
        case CodecKind::fp8_e5m2:
            return decode_either<kDtype, Fp8<2, 15>, false>(job, chunks);
        case CodecKind::nf4:
            return decode_either<kDtype, Nf4, false>(job, chunks);
        default:
            break;
    }
    if (job.planes.high > 0) {
        return decode_either<kDtype, Affine, true>(job, chunks);
    }
    return decode_either<kDtype, Affine, false>(job, chunks);
}

void decode_groups(Job const& job, ChunksToDecode const& chunks) {
    switch (job.dtype) {
        case Dtype::bf16:
            return decode_kind<Dtype::bf16>(job, chunks);
        case Dtype::f16:
            return decode_kind<Dtype::f16>(job, chunks);
        case Dtype::f32:
        case Dtype::u8:
            break;
    }
    return decode_kind<Dtype::f32>(job, chunks);
}

#endif  // !SPILLWAY_CODEC_PLAIN
}  // namespace
}  // namespace spillway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::fast {

HWY_EXPORT(decode_groups);

void decode_groups(Job const& job, ChunksToDecode const& chunks) {
    HWY_DYNAMIC_DISPATCH(decode_groups)(job, chunks);
}

}  // namespace spillway::fast
#endif  // HWY_ONCE
