// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Small blocks, carved from single pages ("slabs"): all blocks of a slab have one size. Bookkeeping
// alone, by page number; the caller brings the pages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace spillway {

inline constexpr std::int64_t kArenaPageBytes = 4096;
inline constexpr std::int64_t kSmallUnitBytes = 64;
inline constexpr std::int64_t kMostBlocks = kArenaPageBytes / kSmallUnitBytes;  ///< of a slab
static_assert(kMostBlocks == 64, "a slab's blocks are the bits of a word");
inline constexpr std::int64_t kSmallestPagedBytes = 2049;  ///< from here on blocks are whole pages

/// Thread  not thread-safe
class SlabTable {
  public:
    /// One small block: the page it lies in, and where.
    struct Place {
        std::int64_t page = -1;  ///< -1: no slab of this size has room
        std::int64_t offset_bytes = 0;
    };

    /// A block of `size_bytes` (a multiple of 64, below a page) from the slabs at hand.
    [[nodiscard]] Place take(std::int64_t size_bytes);

    /// Opens a slab on `page` for blocks of `size_bytes`.
    void add(std::int64_t page, std::int64_t size_bytes);

    /// Frees a block (checked). True when the slab has become empty and is gone: the page is free.
    [[nodiscard]] bool give_back(Place place);

    /// The size of the live block at `place` (checked).
    [[nodiscard]] std::int64_t size_of(Place place) const;

  private:
    static constexpr std::size_t kClasses = kSmallestPagedBytes / kSmallUnitBytes + 1;
    struct Slab {
        std::int64_t size_bytes = 0;  ///< of a block; 0: the page holds no slab
        std::uint64_t used = 0;       ///< a bit for each block, the first one's lowest
    };
    /// The bit of the live block at `place` (checked).
    [[nodiscard]] std::uint64_t live(Place place) const;

    std::vector<Slab> slabs_;                                 ///< by page
    std::array<std::set<std::int64_t>, kClasses> with_room_;  ///< by size / 64: pages
};

}  // namespace spillway
