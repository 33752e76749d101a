// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A chunk of any length whose raw bytes are aligned to one element: the last of a block, and all of
// a tensor that begins anywhere.
#pragma once

#include "cuda_device/codec_chunk.h"

namespace spillway::lanes {

template <typename Value>
SPILLWAY_ANYWHERE std::uint32_t bits_at(std::byte const* raw, int index) {
    using Bits = typename Value::Bits;
    return load<Bits>(raw + index * int{sizeof(Bits)});
}

/// Calls `step` with every element of [first, last) that is the lane's.
template <typename Step>
SPILLWAY_ANYWHERE void for_lane(int lane, int first, int last, Step const& step) {
    for (int i = first + lane; i < last; i += kLanes) {
        step(i);
    }
}

/// Whether `test` finds one of elements [first, last) of the chunk; then the first is refused.
template <typename Value, typename Warp, typename Test>
SPILLWAY_ANYWHERE bool refused_plain(
    Warp const& warp, ToEncode const& chunk, int first, int last, Test const& test
) {
    Each<Warp, std::int64_t> elements;
    Each<Warp, bool> found;
    warp.each([&](int lane) {
        elements[lane] = kNone;
        for_lane(lane, first, last, [&](int i) {
            if (elements[lane] == kNone && test(bits_at<Value>(chunk.raw, i))) {
                elements[lane] = chunk.first() + i;
            }
        });
        found[lane] = elements[lane] != kNone;
    });
    bool const any = warp.any(found);
    if (any) {
        warp.refuse(elements);
    }
    return any;
}

/// A plane of `kWidth`-bit codes, each word by one lane; `code(index)` may have higher bits.
template <typename Warp, typename Code>
SPILLWAY_ANYWHERE void store_plane(
    Warp const& warp, ToEncode const& chunk, int width, std::byte* to, Code const& code
) {
    int const words = arithmetic::words_of(width, chunk.room);
    warp.each([&](int lane) {
        for_lane(lane, 0, words, [&](int at) {
            std::uint32_t word = 0;
            for (int part = 0; part < 32 / width; ++part) {
                int const index = at + part * words;
                std::uint32_t const bits = index < chunk.count ? code(index) : 0;
                word |= (bits & ((1U << width) - 1)) << (part * width);
            }
            store(to + at * 4, word);
        });
    });
}
template <typename Warp, typename Code>
SPILLWAY_ANYWHERE void store_planes(
    Warp const& warp, Task const& task, ToEncode const& chunk, Code const& code
) {
    auto const [low, high] = task.job.planes;
    store_plane(warp, chunk, low, chunk.codes, code);
    if (high > 0) {
        int const below = low;
        std::byte* const to = chunk.codes + arithmetic::words_of(low, chunk.room) * 4;
        store_plane(warp, chunk, high, to, [&](int index) { return code(index) >> below; });
    }
}

SPILLWAY_ANYWHERE std::uint32_t code_in(std::byte const* plane, int width, int room, int index) {
    arithmetic::Position const at = arithmetic::position_of(index, width, room);
    return (load<std::uint32_t>(plane + at.word * 4) >> at.shift) & ((1U << width) - 1);
}
SPILLWAY_ANYWHERE std::uint32_t code_at(Task const& task, ToDecode const& chunk, int index) {
    auto const [low, high] = task.job.planes;
    std::uint32_t code = code_in(chunk.codes, low, chunk.room, index);
    if (high > 0) {
        std::byte const* const second = chunk.codes + arithmetic::words_of(low, chunk.room) * 4;
        code |= code_in(second, high, chunk.room, index) << low;
    }
    return code;
}

/// Writes the ranges of all groups; false: an element was refused.
template <typename Value, typename Warp>
SPILLWAY_ANYWHERE bool store_ranges(Warp const& warp, Task const& task, ToEncode const& chunk) {
    int const group = 1 << task.group_bits;
    for (int first = 0; first < chunk.count; first += group) {
        int const last = chunk.count - first < group ? chunk.count : first + group;
        if (refused_plain<Value>(warp, chunk, first, last, [](std::uint32_t bits) {
                return !is_number<Value>(bits);
            })) {
            return false;
        }
        Each<Warp, Array<float, 2>> lows;
        warp.each([&](int lane) {
            float const none = arithmetic::float_of(F32::kExponent);  // infinity
            lows[lane] = {{none, none}};
            for_lane(lane, first, last, [&](int i) {
                float const value = Value::value(bits_at<Value>(chunk.raw, i));
                lows[lane].at[0] = lower(lows[lane].at[0], value);
                lows[lane].at[1] = lower(lows[lane].at[1], -value);
            });
        });
        join_lanes<2>(warp, lows, kLanes);
        warp.each([&](int lane) {
            if (lane == 0) {
                Range const range = range_of(task.job, lows[lane].at[0], lows[lane].at[1]);
                put_range<Value>(task, chunk.ranges, first >> task.group_bits, range);
            }
        });
    }
    return true;
}

template <typename Coding, typename Value, typename Warp>
SPILLWAY_ANYWHERE void encode_plain(Warp const& warp, Task const& task, ToEncode const& chunk) {
    if (!store_ranges<Value>(warp, task, chunk)) {
        return;
    }
    warp.meet();
    arithmetic::Key const key = arithmetic::key_of(task.job.seed, chunk.number);
    bool const random = task.job.codec.stochastic;
    store_planes(warp, task, chunk, [&](int index) {
        float const rounding = random ? arithmetic::random_rounding(key, index) : 0.5F;
        Range const range = get_range<Value>(task, chunk.ranges, index >> task.group_bits);
        float const value = Value::value(bits_at<Value>(chunk.raw, index));
        return Coding::code(task.job, scale_of(task.job, range), value, rounding);
    });
}
template <typename Coding, typename Value, typename Warp>
SPILLWAY_ANYWHERE void decode_plain(Warp const& warp, Task const& task, ToDecode const& chunk) {
    warp.each([&](int lane) {
        for_lane(lane, 0, chunk.count, [&](int index) {
            Range const range = get_range<Value>(task, chunk.ranges, index >> task.group_bits);
            std::uint32_t const code = code_at(task, chunk, index);
            put_value<Value>(
                chunk.raw, index, Coding::value(task.job, scale_of(task.job, range), code)
            );
        });
    });
}

template <typename Coding, typename Value, typename Warp>
SPILLWAY_ANYWHERE void encode_plain_bits(
    Warp const& warp, Task const& task, ToEncode const& chunk
) {
    std::uint32_t other = 0;
    if constexpr (Coding::kAgrees) {
        Each<Warp, std::uint32_t> others;
        warp.each([&](int lane) {
            others[lane] = 0;
            for_lane(lane, 0, chunk.count, [&](int i) {
                std::uint32_t const bits = bits_at<Value>(chunk.raw, i);
                others[lane] = others[lane] == 0 ? bits : others[lane];
            });
        });
        other = warp.agree(others, chunk.ranges);
    }
    if (!refused_plain<Value>(warp, chunk, 0, chunk.count, [&](std::uint32_t bits) {
            return Coding::template refuses<Value>(bits, other);
        })) {
        store_planes(warp, task, chunk, [&](int index) {
            return Coding::template code<Value>(bits_at<Value>(chunk.raw, index));
        });
    }
}
template <typename Value, typename Warp>
SPILLWAY_ANYWHERE void decode_plain_bits(
    Warp const& warp, Task const& task, ToDecode const& chunk
) {
    using Bits = typename Value::Bits;
    std::uint32_t const other = other_of(task, chunk.ranges);
    warp.each([&](int lane) {
        for_lane(lane, 0, chunk.count, [&](int index) {
            bool const set = code_at(task, chunk, index) != 0;
            store(chunk.raw + index * int{sizeof(Bits)}, static_cast<Bits>(set ? other : 0));
        });
    });
}

}  // namespace spillway::lanes
