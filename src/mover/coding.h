// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the mover needs to encode what leaves and to decode what returns: how a block is encoded,
// memory for coded bytes between codec and tier, and what it came to.
#pragma once

#include "codec/codec.h"
#include "memory/extent_pool.h"
#include "memory/host_memory.h"
#include "tier/reservation_table.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace spillway {

/// How a block is encoded.
struct BlockCode {
    Encoding encoding;
    std::uint64_t seed = 0;    ///< of stochastic rounding
    std::string_view label{};  ///< in whose counters it counts; lives as long as the mover
};

/// Sums of squares over some elements: of what coding changed, and of the elements themselves.
struct SquareSums {
    double of_errors = 0;
    double of_values = 0;
};

/// Elements that follow each other: whole groups, or the last ones.
struct Window {
    std::int64_t first = 0;
    std::int64_t count = 0;
};

/// Where errors are looked for: at most about a sixteenth of a tensor and `most` windows, spread
/// over it. None where nothing is lost of what its reader needs: exact codecs, and `sign`.
class Windows {
  public:
    static constexpr std::int64_t kElements = 1024;  ///< of a window, at most

    Windows(Encoding const& encoding, std::int64_t most);
    [[nodiscard]] std::int64_t size() const { return size_; }
    [[nodiscard]] Window operator[](std::int64_t i) const;
    /// Elements in all.
    [[nodiscard]] std::int64_t elements() const;

  private:
    std::int64_t elements_;
    std::int64_t windows_;  ///< that the tensor has
    std::int64_t size_;
};

/// Encodes and decodes some of `raw` once more and compares. Allocates nothing.
[[nodiscard]] SquareSums sample_error(
    Encoding const& encoding, std::span<std::byte const> raw, std::uint64_t seed
);
/// The same for windows whose elements lie in `samples`, one window after the other.
[[nodiscard]] SquareSums sample_error(
    Encoding const& encoding,
    Windows const& windows,
    std::span<std::byte const> samples,
    std::uint64_t seed
);

/// Windows of a block that a device encodes: they come along behind it.
inline constexpr std::int64_t kSampledWindows = 4;
inline constexpr std::int64_t kMostSampledBytes = kSampledWindows * Windows::kElements * 4;

/// What coding did to the blocks of one label with one codec.
struct CodingCounters {
    std::string_view label;
    Codec codec;
    std::int64_t values = 0;  ///< encoded
    std::int64_t elements = 0;
    std::int64_t raw_bytes = 0;
    std::int64_t encoded_bytes = 0;
    std::int64_t encode_ns = 0;  ///< of the threads that encoded
    std::int64_t decoded_bytes = 0;
    std::int64_t decode_ns = 0;
    SquareSums sums{};          ///< of the elements that were looked at
    std::int64_t went_raw = 0;  ///< refused by the codec
};

/// Thread  not thread-safe: the mover's lock guards it
class CodingTally {
  public:
    /// Zeros at the first call.
    [[nodiscard]] CodingCounters& of(BlockCode const& code);
    [[nodiscard]] std::vector<CodingCounters> const& all() const { return rows_; }

  private:
    std::vector<CodingCounters> rows_;  ///< in order of their first use
};

/// Memory for coded bytes, in halves: for blocks that leave and for those that return, so that
/// neither way ever waits for the other.
///
/// Thread  not thread-safe: the mover's lock guards it
class CodedStaging {
  public:
    explicit CodedStaging(HostMemory const& memory);

    /// Room for a block on its way; empty: there is none now.
    [[nodiscard]] std::span<std::byte> take(Direction way, std::int64_t size_bytes);
    /// Nothing where `room` is empty.
    void give_back(Direction way, std::span<std::byte> room);

    /// The longest block that ever fits.
    [[nodiscard]] std::int64_t most_bytes() const { return halves_[0].capacity_bytes(); }
    /// Taken now, both ways.
    [[nodiscard]] std::int64_t used_bytes() const;

  private:
    [[nodiscard]] std::span<std::byte> half(Direction way) const;

    std::span<std::byte> const bytes_;
    std::array<ExtentPool, 2> halves_;  ///< by Direction
};

}  // namespace spillway
