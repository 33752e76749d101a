// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A tier is a place outside the device where bytes wait: bytes -> place -> bytes. It knows spans,
// not tensors and not plans. Bytes are reserved before they are used; a block is stored once and
// loaded as often as wanted; a load gives back what was stored, or an error.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace spillway {

class Tier;

/// Room for one block on one tier: the promise of `size_bytes`, held until destroyed. Move-only.
///
/// Thread  a Reservation is used by one thread at a time; different ones are independent
/// Order   must outlive every store and load that names it (checked)
class Reservation {
  public:
    Reservation() = default;
    Reservation(Reservation&& other) noexcept
        : tier_(std::exchange(other.tier_, nullptr)),
          entry_(std::exchange(other.entry_, -1)),
          size_bytes_(std::exchange(other.size_bytes_, 0)) {}
    Reservation& operator=(Reservation&& other) noexcept;
    ~Reservation() { reset(); }

    [[nodiscard]] bool valid() const { return tier_ != nullptr; }
    [[nodiscard]] std::int64_t entry() const { return entry_; }
    [[nodiscard]] std::int64_t size_bytes() const { return size_bytes_; }

    /// Hands the room back now.
    void reset() noexcept;

  private:
    friend class Tier;
    Reservation(Tier* tier, std::int64_t entry, std::int64_t size_bytes)
        : tier_(tier), entry_(entry), size_bytes_(size_bytes) {}

    Tier* tier_ = nullptr;
    std::int64_t entry_ = -1;
    std::int64_t size_bytes_ = 0;
};

/// Called once when a store or load has ended. Runs on a thread of the tier (or, for tiers that
/// finish at once, on the caller's before the call returns): it must be quick, must not wait and
/// must not throw.
using TierDone = std::function<void(Result<void>)>;

/// What a tier did since it was opened.
struct TierCounters {
    std::int64_t stored_bytes = 0;  ///< ended well, payload bytes
    std::int64_t loaded_bytes = 0;  ///< ended well, payload bytes
    std::int64_t store_ns = 0;      ///< time with at least one store in flight
    std::int64_t load_ns = 0;       ///< time with at least one load in flight
    std::int64_t used_bytes = 0;    ///< reserved now, rounded as the tier rounds
    std::int64_t peak_used_bytes = 0;
    std::int64_t staging_bytes = 0;    ///< memory of the tier's own for bytes under way
    std::int64_t requested_bytes = 0;  ///< host memory that was asked for; 0: the tier is elsewhere
    std::int64_t locked_bytes = 0;     ///< host memory that is locked (pinned); 0: pageable

    bool operator==(TierCounters const&) const = default;
};

/// Thread  every public function may be called from any thread
class Tier {
  public:
    Tier() = default;
    Tier(Tier const&) = delete;
    Tier& operator=(Tier const&) = delete;
    /// Waits for what is in flight. No Reservation may be left.
    virtual ~Tier() = default;

    /// For people: "nvme /scratch", "host", "memory".
    [[nodiscard]] virtual std::string name() const = 0;

    /// Spans whose address and size are multiples of this move in place; others are copied
    /// through the tier's own staging. 1 where it does not matter.
    [[nodiscard]] virtual std::int64_t alignment() const = 0;

    [[nodiscard]] virtual std::int64_t capacity_bytes() const = 0;

    /// Sets `size_bytes` (> 0) aside for one block.
    ///
    /// Fails   Errc::tier_full, naming what was asked for and what is left
    [[nodiscard]] Result<Reservation> reserve(std::int64_t size_bytes);

    /// Starts to store `from`, of the reservation's size or less, and remembers its checksum.
    ///
    /// Order   `from` stays readable, alive and unchanged until `done`; `room` until `done`
    /// Fails   through `done`: Errc::io, Errc::tier_full (the place filled up behind our back)
    virtual void store(Reservation const& room, std::span<std::byte const> from, TierDone done) = 0;

    /// Starts to load the whole block into `to`, of the size that was stored last (checked), and
    /// checks it against its checksum.
    ///
    /// Order   after the `done` of its store; `to` stays writable and alive until `done`
    /// Fails   through `done`: Errc::io, Errc::corrupt; `where` names file and offset
    virtual void load(Reservation const& room, std::span<std::byte> to, TierDone done) = 0;

    /// Nobody reads any more; what is in flight need only end. A tier that limits its own rate
    /// stops doing so.
    virtual void end_limits() noexcept {}

    /// Announces memory that many stores and loads will use, so that the tier may pin it once
    /// (io_uring's registered buffers). A hint: everything works without it.
    ///
    /// Order   until `forget_memory` the pages must stay mapped and must not be given back to the
    ///         system (munmap, madvise(DONTNEED)): the disk would write to pages that nobody sees.
    ///         So an arena that discards its pages is never registered
    /// Fails   Errc::unsupported, Errc::out_of_memory (RLIMIT_MEMLOCK); nothing has changed then
    [[nodiscard]] virtual Result<void> register_memory(std::span<std::byte> memory);

    /// Undoes `register_memory` of the same span; nothing may be in flight there.
    virtual void forget_memory(std::span<std::byte> memory) noexcept;

    /// The memory that holds the block, for tiers whose bytes the host (and a device's copy engine)
    /// can reach in place; empty for others. A block that is written there is not stored: it has no
    /// checksum, and `load` does not know it.
    ///
    /// Order   valid as long as `room`
    [[nodiscard]] virtual std::span<std::byte> memory(Reservation const& room);

    /// For fault tests: xors bytes [first, first + count) of a stored block with `mask` where they
    /// lie, behind the checksum, as a bad disk would. Ends before it returns.
    ///
    /// Order   no store or load of the block is in flight
    /// Fails   Errc::unsupported (nothing lies below a checksum here), Errc::io
    [[nodiscard]] virtual Result<void> damage(
        Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
    );

    [[nodiscard]] virtual TierCounters counters() const = 0;
    /// What was moved and reserved so far counts no more: it measured the tier.
    ///
    /// Order   nothing is in flight
    virtual void count_afresh() = 0;

  protected:
    friend class Reservation;
    /// A entry number that is free, of at least `size_bytes`.
    [[nodiscard]] virtual Result<std::int64_t> take_entry(std::int64_t size_bytes) = 0;
    virtual void give_entry_back(std::int64_t entry) noexcept = 0;
};

}  // namespace spillway
