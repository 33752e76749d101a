// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Where the parts of a coded block lie: docs/formats/coded_block.md. Kernels of other devices
// write the same parts.
#pragma once

#include "codec/codec.h"

namespace spillway {

inline constexpr std::int64_t kHeaderBytes = 64;
/// What a device leaves in the first 8 bytes of a header that is not written yet, where it coded
/// every element.
inline constexpr std::uint64_t kNoneRefused = ~std::uint64_t{0};
/// The most raw bytes that `lossless` compresses at a time.
inline constexpr std::int64_t kFrameBytes = 131072;

/// A header, then the groups' ranges (min and max, or the largest magnitude; of `mask` its other
/// value), padded to 64 bytes, then the codes.
struct Layout {
    std::int64_t range_bytes = 0;  ///< padding included
    std::int64_t codes_bytes = 0;  ///< of `lossless` the most that they can be

    [[nodiscard]] std::int64_t ranges_offset() const { return kHeaderBytes; }
    [[nodiscard]] std::int64_t codes_offset() const { return kHeaderBytes + range_bytes; }
    [[nodiscard]] std::int64_t total_bytes() const { return codes_offset() + codes_bytes; }
};

/// Of an encoding whose parameters exist.
[[nodiscard]] Layout layout_of(Encoding const& encoding);

/// Bits of a code; 0: the codec has none.
[[nodiscard]] int code_bits(Codec const& codec);
/// Bytes of one group's range.
[[nodiscard]] std::int64_t range_bytes_of_group(Codec const& codec, Dtype dtype);
/// Elements that a chunk of `count` of them (1 to arithmetic::kChunk) has room for: the next power
/// of two, at least 32.
[[nodiscard]] int room_for(std::int64_t count);

}  // namespace spillway
