// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A tier behind a link of a given rate, wrapped around any other: what a slower bus or disk would
// do to a run, on a machine that has none.
#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "base/units.h"
#include "tier/reservation_table.h"
#include "tier/tier.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

namespace spillway {

/// Note [What a limited rate is]
/// Bytes flow at `rate` each way, and the ways do not share it (as on PCIe). A block takes
/// size / rate on its link, from the later of its start and the end of the block before it in its
/// direction, and ends no earlier than the wrapped tier has ended with it: so blocks of one
/// direction end in order. Delays of the thread that reports the ends do not accumulate.
///
/// Thread  like every tier. `done` runs on a thread of this tier, which alone waits for the time
class RateLimitedTier final : public Tier {
  public:
    /// `now_ns` is called from any thread; a test that steps its time calls `look_at_clock` after.
    RateLimitedTier(
        std::unique_ptr<Tier> wrapped,
        BytesPerSec rate,
        std::function<std::int64_t()> now_ns = steady_now_ns
    );
    /// Ends what is in flight as soon as the wrapped tier has, whatever the time.
    ~RateLimitedTier() override;

    void look_at_clock();

    [[nodiscard]] std::string name() const override { return "rate-limited " + wrapped_->name(); }
    [[nodiscard]] std::int64_t alignment() const override { return wrapped_->alignment(); }
    [[nodiscard]] std::int64_t capacity_bytes() const override {
        return wrapped_->capacity_bytes();
    }
    void store(Reservation const& room, std::span<std::byte const> from, TierDone done) override;
    void load(Reservation const& room, std::span<std::byte> to, TierDone done) override;
    void end_limits() noexcept override;
    [[nodiscard]] Result<void> register_memory(std::span<std::byte> memory) override {
        return wrapped_->register_memory(memory);
    }
    void forget_memory(std::span<std::byte> memory) noexcept override {
        wrapped_->forget_memory(memory);
    }
    [[nodiscard]] Result<void> damage(
        Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
    ) override;
    /// Busy times are the link's.
    [[nodiscard]] TierCounters counters() const override;
    void count_afresh() override {
        wrapped_->count_afresh();
        entries_.count_afresh();
    }

  private:
    /// A block on the link.
    struct Flow {
        std::int64_t entry = -1;
        TierDone done;
        std::int64_t took_ns = 0;  ///< on the link, alone
        std::int64_t started_ns = 0;
        std::int64_t tier_ended_ns = 0;
        std::optional<Result<void>> outcome{};  ///< of the wrapped tier, once it has ended
    };

    [[nodiscard]] Result<std::int64_t> take_entry(std::int64_t size_bytes) override;
    void give_entry_back(std::int64_t entry) noexcept override;
    [[nodiscard]] Reservation const& room_of(std::int64_t entry) const;
    [[nodiscard]] TierDone enter(
        Reservation const& room, Direction way, std::int64_t size_bytes, TierDone done
    );
    void run();
    [[nodiscard]] std::int64_t end_of(Flow const& flow, Direction way) const
        SPILLWAY_REQUIRES(guard_);
    /// Lets the lock go for the `done` of the block.
    bool end_first(Direction way) SPILLWAY_REQUIRES(guard_);
    void wait() SPILLWAY_REQUIRES(guard_);

    std::unique_ptr<Tier> const wrapped_;
    BytesPerSec const rate_;
    std::function<std::int64_t()> const now_ns_;
    ReservationTable entries_;

    mutable Mutex guard_;
    ConditionVariable changed_;
    /// Of the wrapped tier, by our entry.
    std::unordered_map<std::int64_t, Reservation> rooms_ SPILLWAY_GUARDED_BY(guard_);
    std::deque<Flow> flows_[2] SPILLWAY_GUARDED_BY(guard_);  ///< by Direction, in order
    std::int64_t last_end_ns_[2] SPILLWAY_GUARDED_BY(guard_);
    bool stopping_ SPILLWAY_GUARDED_BY(guard_) = false;
    bool is_limited_ SPILLWAY_GUARDED_BY(guard_) = true;
    std::thread completer_;  ///< last: it uses all of the above
};

}  // namespace spillway
