// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The host tier: blocks in one page-aligned range of host memory of exact size, locked or not.
// Copies run on a thread of the tier's own, so that it behaves as asynchronously as others do.
#pragma once

#include "base/mutex.h"
#include "memory/extent_pool.h"
#include "memory/host_memory.h"
#include "tier/reservation_table.h"
#include "tier/tier.h"

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>

namespace spillway {

/// Blocks in one contiguous range of host memory, which must begin at a page.
class HostTier final : public Tier {
  public:
    /// On memory of its own, not locked: pages become resident when they are first written.
    ///
    /// Fails   Errc::bad_argument (no capacity), Errc::out_of_memory
    [[nodiscard]] static Result<std::unique_ptr<Tier>> open(std::int64_t capacity_bytes);
    /// On `arena`, at least a page.
    [[nodiscard]] static std::unique_ptr<Tier> open(HostMemory arena);
    ~HostTier() override;

    [[nodiscard]] std::string name() const override { return "host"; }
    [[nodiscard]] std::int64_t alignment() const override { return 1; }
    [[nodiscard]] std::int64_t capacity_bytes() const override { return capacity_bytes_; }

    void store(Reservation const& room, std::span<std::byte const> from, TierDone done) override;
    void load(Reservation const& room, std::span<std::byte> to, TierDone done) override;

    [[nodiscard]] Result<void> damage(
        Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
    ) override;
    [[nodiscard]] std::span<std::byte> memory(Reservation const& room) override;
    [[nodiscard]] TierCounters counters() const override;
    void count_afresh() override { entries_.count_afresh(); }

  private:
    struct Copy {
        Direction way = Direction::store;
        std::int64_t entry_number = -1;
        TierEntry* entry = nullptr;
        std::span<std::byte const> from;  ///< of a store
        std::span<std::byte> to;          ///< of a load
        TierDone done;
    };

    explicit HostTier(HostMemory arena);
    [[nodiscard]] Result<std::int64_t> take_entry(std::int64_t size_bytes) override;
    void give_entry_back(std::int64_t entry) noexcept override;
    void enqueue(Copy copy);
    void run_copies();
    void run_copy(Copy const& copy);

    HostMemory const arena_;
    ReservationTable entries_;

    Mutex pool_guard_;
    ExtentPool pool_ SPILLWAY_GUARDED_BY(pool_guard_);
    std::int64_t const capacity_bytes_;

    Mutex guard_;
    ConditionVariable changed_;
    std::deque<Copy> copies_ SPILLWAY_GUARDED_BY(guard_);
    bool stopping_ SPILLWAY_GUARDED_BY(guard_) = false;
    std::thread worker_;  ///< last: it uses all of the above
};

}  // namespace spillway
