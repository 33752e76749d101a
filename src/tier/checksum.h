// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Checksums of blocks, one XXH3-64 a piece, so that a flipped bit is located to its piece.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace spillway {

/// The piece of tiers that need no other grain.
inline constexpr std::int64_t kMemoryPieceBytes = std::int64_t{1} << 20;

[[nodiscard]] std::uint64_t checksum_of(std::span<std::byte const> bytes);

/// How many pieces of `piece_bytes` (the last may be shorter) a block has.
[[nodiscard]] constexpr std::int64_t pieces_of(std::int64_t size_bytes, std::int64_t piece_bytes) {
    return (size_bytes + piece_bytes - 1) / piece_bytes;
}

/// The error for a piece that came back different, at bytes [first, first + count) of `place`.
[[nodiscard]] Error corrupt_piece(std::string_view place, std::int64_t first, std::int64_t count);

/// Copies `from` into `to` and keeps a checksum of each piece in `checksums`, which may have room
/// for more, piece by piece, so that each is still in the cache when it is summed.
void copy_and_sum(
    std::span<std::byte const> from, std::byte* to, std::vector<std::uint64_t>& checksums
);

/// Copies `from` into `to` and compares the pieces of `to` with `checksums`.
///
/// Fails   Errc::corrupt; `where` is `place` and the offset (`place_offset` + piece)
[[nodiscard]] Result<void> copy_and_check(
    std::span<std::byte const> from,
    std::byte* to,
    std::vector<std::uint64_t> const& checksums,
    std::string_view place,
    std::int64_t place_offset
);

}  // namespace spillway
