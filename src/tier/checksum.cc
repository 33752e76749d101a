// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>  // the widest vectors that this machine has, for XXH3_64bits too
#endif

#include <algorithm>
#include <cstring>

namespace spillway {

namespace {

std::span<std::byte const> piece_at(std::span<std::byte const> block, std::size_t index) {
    auto const piece = static_cast<std::size_t>(kMemoryPieceBytes);
    std::size_t const first = index * piece;
    return block.subspan(first, std::min(piece, block.size() - first));
}

std::size_t pieces_in(std::span<std::byte const> block) {
    return static_cast<std::size_t>(pieces_of(std::ssize(block), kMemoryPieceBytes));
}

}  // namespace

std::uint64_t checksum_of(std::span<std::byte const> bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

Error corrupt_piece(std::string_view place, std::int64_t first, std::int64_t count) {
    return Error{
        Errc::corrupt,
        fmt::format("{} bytes came back different from what was stored (checksum)", count),
        fmt::format("{}, offset {}", place, first)};
}

void copy_and_sum(
    std::span<std::byte const> from, std::byte* to, std::vector<std::uint64_t>& checksums
) {
    for (std::size_t i = 0; i < pieces_in(from); ++i) {
        std::span<std::byte const> const piece = piece_at(from, i);
        std::memcpy(to + (piece.data() - from.data()), piece.data(), piece.size());
        checksums[i] = checksum_of(piece);
    }
}

Result<void> copy_and_check(
    std::span<std::byte const> from,
    std::byte* to,
    std::vector<std::uint64_t> const& checksums,
    std::string_view place,
    std::int64_t place_offset
) {
    for (std::size_t i = 0; i < pieces_in(from); ++i) {
        std::span<std::byte const> const piece = piece_at(from, i);
        std::ptrdiff_t const first = piece.data() - from.data();
        std::memcpy(to + first, piece.data(), piece.size());
        if (checksum_of({to + first, piece.size()}) != checksums[i]) {
            return corrupt_piece(place, place_offset + first, std::ssize(piece));
        }
    }
    return {};
}

}  // namespace spillway
