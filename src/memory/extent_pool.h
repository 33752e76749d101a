// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which parts of a place (a file, an arena) are free: first fit by address, neighbours merge. Low
// addresses first, so that a file grows only when it must and is written again where it was.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace spillway {

/// Extents of [0, capacity), half-open, in multiples of a unit.
///
/// Thread  not thread-safe; the owner guards it
class ExtentPool {
  public:
    /// `unit_bytes` is a power of two; what is left of `capacity_bytes` over it is not used.
    ExtentPool(std::int64_t capacity_bytes, std::int64_t unit_bytes);

    /// What `size_bytes` take up here.
    [[nodiscard]] std::int64_t rounded(std::int64_t size_bytes) const;

    /// The first byte of a free extent of `rounded(size_bytes)` bytes, now taken; nothing when no
    /// hole is that long.
    [[nodiscard]] std::optional<std::int64_t> take(std::int64_t size_bytes);

    /// Gives back what `take` of the same size returned. A double or foreign return aborts.
    void give_back(std::int64_t first, std::int64_t size_bytes);

    [[nodiscard]] std::int64_t capacity_bytes() const { return capacity_bytes_; }
    [[nodiscard]] std::int64_t free_bytes() const { return free_bytes_; }
    [[nodiscard]] std::int64_t longest_hole_bytes() const;

  private:
    std::int64_t unit_bytes_;
    std::int64_t capacity_bytes_;
    std::int64_t free_bytes_;
    std::map<std::int64_t, std::int64_t> holes_;  ///< first byte -> bytes; never adjacent
};

}  // namespace spillway
