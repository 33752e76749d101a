// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A tier of plain heap memory, done before the call returns: for tests, and the simplest example.
#pragma once

#include "base/mutex.h"
#include "tier/reservation_table.h"
#include "tier/tier.h"

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

namespace spillway {

/// Blocks on the heap, bound by a capacity; `done` runs on the caller before the call returns.
class MemoryTier final : public Tier {
  public:
    explicit MemoryTier(std::int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}
    ~MemoryTier() override;

    [[nodiscard]] std::string name() const override { return "memory"; }
    [[nodiscard]] std::int64_t alignment() const override { return 1; }
    [[nodiscard]] std::int64_t capacity_bytes() const override { return capacity_bytes_; }

    void store(Reservation const& room, std::span<std::byte const> from, TierDone done) override;
    void load(Reservation const& room, std::span<std::byte> to, TierDone done) override;

    [[nodiscard]] Result<void> damage(
        Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
    ) override;
    [[nodiscard]] TierCounters counters() const override { return entries_.counters(); }
    void count_afresh() override { entries_.count_afresh(); }

  private:
    [[nodiscard]] Result<std::int64_t> take_entry(std::int64_t size_bytes) override;
    void give_entry_back(std::int64_t entry) noexcept override;
    [[nodiscard]] std::byte* bytes_of(std::int64_t entry);

    std::int64_t const capacity_bytes_;
    ReservationTable entries_;
    Mutex guard_;
    std::int64_t used_bytes_ SPILLWAY_GUARDED_BY(guard_) = 0;
    std::unordered_map<std::int64_t, std::unique_ptr<std::byte[]>> blocks_
        SPILLWAY_GUARDED_BY(guard_);
};

}  // namespace spillway
