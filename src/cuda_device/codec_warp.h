// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How 32 lanes share a chunk of a coded block. A Warp is what the lanes do together: GpuWarp, of
// codec_kernels.cu, or HostWarp, which plays all of them one after the other, so that a machine
// without a GPU proves every index of the kernels against the scalar codecs.
#pragma once

#include "codec/arithmetic.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDA_ARCH__
#define SPILLWAY_UNROLL _Pragma("unroll")
#else
#define SPILLWAY_UNROLL
#endif

namespace spillway::lanes {

inline constexpr int kLanes = 32;
inline constexpr int kPlaces = 4;  ///< neighbours that a lane reads at once
inline constexpr int kRow = kLanes * kPlaces;
inline constexpr int kRows = arithmetic::kChunk / kRow;

/// Of the chunk: what `lane` has at (row, place).
SPILLWAY_ANYWHERE int index_of(int lane, int row, int place) {
    return row * kRow + lane * kPlaces + place;
}

template <typename Item, int kCount>
struct Array {
    Item at[kCount];
};

/// What a lane reads or writes at once.
template <typename Item>
struct alignas(sizeof(Item) * kPlaces) Four {
    Item at[kPlaces];
};

/// On a GPU one instruction: `from` is aligned as `Item` is.
template <typename Item>
SPILLWAY_ANYWHERE Item load(std::byte const* from) {
#ifdef __CUDA_ARCH__
    return *reinterpret_cast<Item const*>(from);
#else
    Item item;
    std::memcpy(&item, from, sizeof item);
    return item;
#endif
}
template <typename Item>
SPILLWAY_ANYWHERE void store(std::byte* to, Item const& item) {
#ifdef __CUDA_ARCH__
    *reinterpret_cast<Item*>(to) = item;
#else
    std::memcpy(to, &item, sizeof item);
#endif
}

/// What every lane has of its own.
template <typename Warp, typename Item>
using Each = typename Warp::template Each<Item>;

// Elements. `kExponent`: its bits are all set in what is no number.

struct F32 {
    using Bits = std::uint32_t;
    static constexpr std::uint32_t kExponent = 0x7f800000U;
    SPILLWAY_ANYWHERE static float value(std::uint32_t bits) { return arithmetic::float_of(bits); }
    SPILLWAY_ANYWHERE static std::uint32_t bits(float value) { return arithmetic::bits_of(value); }
};
struct Bf16 {
    using Bits = std::uint16_t;
    static constexpr std::uint32_t kExponent = 0x7f80U;
    SPILLWAY_ANYWHERE static float value(std::uint32_t bits) {
        return arithmetic::from_bfloat(bits);
    }
    SPILLWAY_ANYWHERE static std::uint32_t bits(float value) {
        return arithmetic::to_bfloat(value);
    }
};
struct F16 {
    using Bits = std::uint16_t;
    static constexpr std::uint32_t kExponent = 0x7c00U;
    SPILLWAY_ANYWHERE static float value(std::uint32_t bits) { return arithmetic::from_half(bits); }
    SPILLWAY_ANYWHERE static std::uint32_t bits(float value) { return arithmetic::to_half(value); }
};
/// Bits and no value: `mask` alone takes it.
struct U8 {
    using Bits = std::uint8_t;
};

template <typename Value>
SPILLWAY_ANYWHERE float value_at(std::byte const* raw, std::int64_t index) {
    using Bits = typename Value::Bits;
    return Value::value(load<Bits>(raw + index * std::int64_t{sizeof(Bits)}));
}
template <typename Value>
SPILLWAY_ANYWHERE void put_value(std::byte* raw, std::int64_t index, float value) {
    using Bits = typename Value::Bits;
    store(raw + index * std::int64_t{sizeof(Bits)}, static_cast<Bits>(Value::bits(value)));
}

/// The bits of a lane's elements of a whole chunk.
using Rows = Array<std::uint32_t, kRows * kPlaces>;

template <typename Value>
SPILLWAY_ANYWHERE Rows load_rows(std::byte const* raw, int lane) {
    using Bits = typename Value::Bits;
    Rows rows;
    SPILLWAY_UNROLL
    for (int row = 0; row < kRows; ++row) {
        auto const four = load<Four<Bits>>(raw + index_of(lane, row, 0) * int{sizeof(Bits)});
        SPILLWAY_UNROLL
        for (int place = 0; place < kPlaces; ++place) {
            rows.at[row * kPlaces + place] = four.at[place];
        }
    }
    return rows;
}

template <typename Value, typename Bits>
SPILLWAY_ANYWHERE void store_row(std::byte* raw, int lane, int row, Bits const& bits_at) {
    Four<typename Value::Bits> four;
    SPILLWAY_UNROLL
    for (int place = 0; place < kPlaces; ++place) {
        four.at[place] = static_cast<typename Value::Bits>(bits_at(place));
    }
    store(raw + index_of(lane, row, 0) * int{sizeof(typename Value::Bits)}, four);
}

/// A plane of a whole chunk, codes of `kWidth` bits: which words a lane's codes are in, and where.
template <int kWidth>
struct Plane {
    static constexpr int kWords = arithmetic::kChunk / 32 * kWidth;
    /// Fours of words that a lane has; where one is too many, lanes `kApart` apart share it.
    static constexpr int kFours = kWords < kRow ? 1 : kWords / kRow;
    static constexpr int kApart = kWords / kPlaces;
    static constexpr std::uint32_t kMask = (1U << kWidth) - 1;
    using Words = Array<std::uint32_t, kFours * kPlaces>;

    SPILLWAY_ANYWHERE static int word(int row, int place) { return row % kFours * kPlaces + place; }
    SPILLWAY_ANYWHERE static int shift(int lane, int row) {
        if constexpr (kWords < kRow) {
            return (row * (kRow / kWords) + lane / kApart) * kWidth;
        } else {
            return row / kFours * kWidth;
        }
    }
};

}  // namespace spillway::lanes
