// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the two ways to code a chunk by one warp share: rules, the chunk's bytes, ranges of groups.
// The ways: codec_whole.h for whole chunks whose elements are aligned to fours, codec_plain.h for
// all.
#pragma once

#include "codec/job.h"
#include "codec/layout.h"
#include "cuda_device/codec_warp.h"

#include <bit>

namespace spillway::lanes {

// How each kind of group turns a number into a code, and back. `kRounds`: may round at random.

struct Affine {
    static constexpr bool kRounds = true;
    SPILLWAY_ANYWHERE static std::uint32_t code(
        Job const& job, arithmetic::Scale const& scale, float value, float rounding
    ) {
        return arithmetic::affine_code(value, scale, job.offset, job.top, rounding);
    }
    SPILLWAY_ANYWHERE static float value(
        Job const& job, arithmetic::Scale const& scale, std::uint32_t code
    ) {
        return arithmetic::affine_value(code, scale, job.offset);
    }
};
template <int kMantissa, int kBias>
struct Fp8 {
    static constexpr bool kRounds = false;
    SPILLWAY_ANYWHERE static std::uint32_t code(
        Job const& job, arithmetic::Scale const& scale, float value, float
    ) {
        return arithmetic::fp8_code<kMantissa, kBias>(value, scale, job.top);
    }
    SPILLWAY_ANYWHERE static float value(
        Job const&, arithmetic::Scale const& scale, std::uint32_t code
    ) {
        return arithmetic::fp8_value<kMantissa, kBias>(code, scale);
    }
};
struct Nf4 {
    static constexpr bool kRounds = false;
    SPILLWAY_ANYWHERE static std::uint32_t code(
        Job const&, arithmetic::Scale const& scale, float value, float
    ) {
        return arithmetic::nf4_code(value, scale);
    }
    SPILLWAY_ANYWHERE static float value(
        Job const&, arithmetic::Scale const& scale, std::uint32_t code
    ) {
        return arithmetic::nf4_value(code, scale);
    }
};

/// No element.
inline constexpr std::int64_t kNone = -1;

/// What all warps of a block share.
struct Task {
    Job job;
    std::int64_t count = 0;  ///< elements
    int group_bits = 0;      ///< log2 of the group's elements
    int range_values = 0;    ///< values
    int last_room = 0;       ///< that the last chunk has

    [[nodiscard]] SPILLWAY_ANYWHERE std::int64_t whole_chunks() const {
        return count / arithmetic::kChunk;
    }
    [[nodiscard]] SPILLWAY_ANYWHERE int range_values_of_chunk() const {
        return (arithmetic::kChunk >> group_bits) * range_values;
    }
};

inline Task task_of(Encoding const& encoding, std::uint64_t seed) {
    Task task{.job = job_of(encoding, seed), .count = encoding.count};
    if (encoding.codec.group > 0) {
        task.group_bits = std::countr_zero(static_cast<unsigned>(encoding.codec.group));
        task.range_values = task.job.symmetric ? 1 : 2;
    }
    task.last_room = room_for(encoding.count % arithmetic::kChunk);
    return task;
}

/// The bytes of one chunk.
template <typename Raw, typename Coded>
struct Chunk {
    std::int64_t number = 0;
    int count = 0;
    int room = 0;
    Raw* raw = nullptr;
    Coded* ranges = nullptr;
    Coded* codes = nullptr;

    [[nodiscard]] SPILLWAY_ANYWHERE std::int64_t first() const {
        return number * arithmetic::kChunk;
    }
};
using ToEncode = Chunk<std::byte const, std::byte>;
using ToDecode = Chunk<std::byte, std::byte const>;

/// Chunk `number` of the block whose parts these are.
template <typename Value, typename Raw, typename Coded>
SPILLWAY_ANYWHERE Chunk<Raw, Coded> chunk_of(
    Task const& task, std::int64_t number, Raw* raw, Coded* ranges, Coded* codes
) {
    constexpr int kBytes = sizeof(typename Value::Bits);
    int const width = task.job.planes.low + task.job.planes.high;
    bool const whole = number < task.whole_chunks();
    return {
        .number = number,
        .count = whole ? arithmetic::kChunk : static_cast<int>(task.count % arithmetic::kChunk),
        .room = whole ? arithmetic::kChunk : task.last_room,
        .raw = raw + number * (arithmetic::kChunk * kBytes),
        .ranges = ranges + number * (task.range_values_of_chunk() * kBytes),
        .codes = codes + number * (arithmetic::kChunk / 8 * width)};
}

template <typename Value>
SPILLWAY_ANYWHERE bool is_number(std::uint32_t bits) {
    return (bits & Value::kExponent) != Value::kExponent;
}

// Rules of single elements, one bit each. `kAgrees`: all elements but 0 must be equal.

struct Mask {
    static constexpr bool kAgrees = true;
    template <typename Value>
    SPILLWAY_ANYWHERE static bool refuses(std::uint32_t bits, std::uint32_t other) {
        return bits != 0 && bits != other;
    }
    template <typename Value>
    SPILLWAY_ANYWHERE static std::uint32_t code(std::uint32_t bits) {
        return bits == 0 ? 0 : 1;
    }
};
struct Sign {
    static constexpr bool kAgrees = false;
    template <typename Value>
    SPILLWAY_ANYWHERE static bool refuses(std::uint32_t bits, std::uint32_t) {
        return !is_number<Value>(bits);
    }
    template <typename Value>
    SPILLWAY_ANYWHERE static std::uint32_t code(std::uint32_t bits) {
        return Value::value(bits) > 0 ? 1 : 0;
    }
};

/// The bits of a set element.
SPILLWAY_ANYWHERE std::uint32_t other_of(Task const& task, std::byte const* ranges) {
    return task.job.codec.kind == CodecKind::mask ? load<std::uint32_t>(ranges) : task.job.other;
}

// Ranges of groups. The max is kept as the least of the negated: then both are lows.

SPILLWAY_ANYWHERE float lower(float a, float b) {
#ifdef __CUDA_ARCH__
    return fminf(a, b);
#else
    return b < a ? b : a;
#endif
}

struct Range {
    float low = 0;
    float high = 0;
};
SPILLWAY_ANYWHERE Range range_of(Job const& job, float low, float negated_high) {
    Range range{arithmetic::plus(low, 0.0F), arithmetic::plus(-negated_high, 0.0F)};  // no -0
    if (job.symmetric) {
        range.high = -range.low > range.high ? -range.low : range.high;
        range.low = -range.high;
    }
    return range;
}
SPILLWAY_ANYWHERE arithmetic::Scale scale_of(Job const& job, Range range) {
    return arithmetic::scale_of(range.low, range.high, job.steps, job.symmetric);
}

template <typename Value>
SPILLWAY_ANYWHERE void put_range(Task const& task, std::byte* to, std::int64_t group, Range range) {
    std::int64_t const at = group * task.range_values;
    put_value<Value>(to, at, task.job.symmetric ? range.high : range.low);
    if (!task.job.symmetric) {
        put_value<Value>(to, at + 1, range.high);
    }
}
template <typename Value>
SPILLWAY_ANYWHERE Range get_range(Task const& task, std::byte const* from, std::int64_t group) {
    std::int64_t const at = group * task.range_values;
    float const first = value_at<Value>(from, at);
    if (task.job.symmetric) {
        return {-first, first};
    }
    return {first, value_at<Value>(from, at + 1)};
}

/// Lanes of one group, `lanes` neighbours, get its lows.
template <int kCount, typename Warp>
SPILLWAY_ANYWHERE void join_lanes(
    Warp const& warp, Each<Warp, Array<float, kCount>>& lows, int lanes
) {
    SPILLWAY_UNROLL
    for (int apart = 1; apart < kLanes; apart *= 2) {
        if (apart < lanes) {
            auto const others = warp.across(lows, apart);
            warp.each([&](int lane) {
                SPILLWAY_UNROLL
                for (int i = 0; i < kCount; ++i) {
                    lows[lane].at[i] = lower(lows[lane].at[i], others[lane].at[i]);
                }
            });
        }
    }
}

}  // namespace spillway::lanes
