// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What every tier knows of its reserved entries, kept once for all: where a block lies, whether it
// was stored, its checksums, what is under way, and the counters.
#pragma once

#include "base/mutex.h"
#include "base/result.h"
#include "tier/tier.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace spillway {

enum class Direction : std::uint8_t { store, load };
[[nodiscard]] inline std::size_t index_of(Direction way) {
    return static_cast<std::size_t>(way);
}

/// One reserved place. Its address is stable while it is reserved.
struct TierEntry {
    std::int64_t place = 0;                ///< first byte in the file or arena
    std::int64_t size_bytes = 0;           ///< what was asked for
    std::int64_t rounded_bytes = 0;        ///< what it takes up
    std::int64_t stored_bytes = 0;         ///< of the block that lies there, or is on its way
    std::vector<std::uint64_t> checksums;  ///< one a piece; written by the store under way

    bool taken = false;
    bool stored = false;
    int stores_in_flight = 0;
    int loads_in_flight = 0;
};

/// Thread  every function may be called from any thread. A entry's `checksums` are touched only
///         between `begin` and `end`
class ReservationTable {
  public:
    /// Registers a place as reserved and returns its entry number.
    [[nodiscard]] std::int64_t add(
        std::int64_t place, std::int64_t size_bytes, std::int64_t rounded_bytes, std::int64_t pieces
    );

    struct Place {
        std::int64_t first = 0;
        std::int64_t size_bytes = 0;
    };
    /// Forgets the entry and returns the place that is free again. Aborts when something is still
    /// under way there.
    Place remove(std::int64_t entry) noexcept;

    /// Starts a store of `size_bytes`, at most the entry's size, or a load of as many as were
    /// stored.
    ///
    /// Fails   Errc::bad_argument: a load of what was never stored
    [[nodiscard]] Result<TierEntry*> begin(
        std::int64_t entry, Direction way, std::int64_t size_bytes
    );

    /// Ends what `begin` started. Called before the `done` of the caller.
    void end(std::int64_t entry, Direction way, bool ok) noexcept;

    /// Everything but `staging_bytes`, `requested_bytes` and `locked_bytes`.
    [[nodiscard]] TierCounters counters() const;

    /// As Tier::count_afresh.
    void count_afresh();

    /// Where a reserved entry lies, and what was asked for.
    [[nodiscard]] Place place_of(std::int64_t entry) const;

    /// The entry, when a block is stored there and nothing is under way. For fault tests.
    [[nodiscard]] Result<TierEntry const*> at_rest(std::int64_t entry) const;

  private:
    using Clock = std::chrono::steady_clock;

    mutable Mutex guard_;
    /// Checksums are their store's or loads'.
    std::deque<TierEntry> entries_ SPILLWAY_GUARDED_BY(guard_);
    std::vector<std::int64_t> unused_ SPILLWAY_GUARDED_BY(guard_);
    TierCounters counters_ SPILLWAY_GUARDED_BY(guard_);
    int in_flight_[2] SPILLWAY_GUARDED_BY(guard_) = {0, 0};  ///< by Direction
    /// Of directions with something in flight.
    Clock::time_point busy_since_[2] SPILLWAY_GUARDED_BY(guard_) = {};
};

}  // namespace spillway
