// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A tier that goes wrong on purpose, wrapped around any other, so that every failure a real disk
// can produce is one line of a test.
//
// Where each fault acts, and who must notice:
//   fail   the operation ends with an error and never reaches the wrapped tier    the caller
//   hold   the operation starts late: after so many later ones, or on `let_go`    nobody: legal
//   cut    the wrapped store ends well, then bytes from `at_byte` on are altered  the wrapped
//          below its checksum, as if they had never arrived (a short write)       tier's load
//   flip   one bit of the stored block is altered below the checksum: after the   the wrapped
//          n-th store, or before the n-th load                                    tier's load
//   garble one bit of what a load brought is altered above the checksum, as bad   whoever has a
//          memory would                                                           checksum there
//   full   reserve answers Errc::tier_full                                        the caller
// So faults that falsify bytes act below the checksum (Tier::damage), except for `garble`.
#pragma once

#include "base/mutex.h"
#include "tier/reservation_table.h"
#include "tier/tier.h"

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace spillway {

/// One line of the script: what goes wrong at operations [first, first + count) of one direction
/// (for `full`: of `reserve`), counted from 0 over the life of the tier.
struct Fault {
    enum class Kind : std::uint8_t { fail, hold, cut, flip, garble, full };
    static constexpr std::int64_t kForever = std::int64_t{1} << 62;

    Kind kind = Kind::fail;
    Direction way = Direction::store;
    std::int64_t first = 0;
    std::int64_t count = 1;
    std::int64_t at_byte = 0;            ///< flip, garble: which byte; cut: how many arrive
    int at_bit = 0;                      ///< flip, garble
    std::int64_t later_operations = -1;  ///< hold: started after so many later ones; -1: on let_go
    Errc code = Errc::io;                ///< fail
};

/// Thread  like every tier; `add` and `let_go` too
class FaultyTier final : public Tier {
  public:
    explicit FaultyTier(std::unique_ptr<Tier> wrapped, std::vector<Fault> script = {});
    /// Lets go of what is held, and waits for it.
    ~FaultyTier() override;

    void add(Fault fault);
    /// Starts everything that is held now, in order.
    void let_go();
    [[nodiscard]] std::int64_t held() const;
    /// Real time added to every operation, for benches of slow disks.
    void set_delay_ms(std::int64_t delay_ms);

    [[nodiscard]] std::string name() const override { return "faulty " + wrapped_->name(); }
    [[nodiscard]] std::int64_t alignment() const override { return wrapped_->alignment(); }
    [[nodiscard]] std::int64_t capacity_bytes() const override {
        return wrapped_->capacity_bytes();
    }
    void store(Reservation const& room, std::span<std::byte const> from, TierDone done) override;
    void load(Reservation const& room, std::span<std::byte> to, TierDone done) override;
    void end_limits() noexcept override { wrapped_->end_limits(); }
    [[nodiscard]] Result<void> register_memory(std::span<std::byte> memory) override {
        return wrapped_->register_memory(memory);
    }
    void forget_memory(std::span<std::byte> memory) noexcept override {
        wrapped_->forget_memory(memory);
    }
    [[nodiscard]] Result<void> damage(
        Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
    ) override;
    [[nodiscard]] TierCounters counters() const override { return wrapped_->counters(); }
    void count_afresh() override { wrapped_->count_afresh(); }

  private:
    struct Operation {
        Direction way = Direction::store;
        Reservation const* room = nullptr;  ///< of the wrapped tier
        std::span<std::byte const> from;
        std::span<std::byte> to;
        TierDone done;
        std::vector<Fault> faults;
        std::int64_t start_at = 0;  ///< held: the count of operations that starts it
        std::chrono::steady_clock::time_point due;

        [[nodiscard]] std::int64_t size_bytes() const {
            return way == Direction::store ? std::ssize(from) : std::ssize(to);
        }
    };

    [[nodiscard]] Result<std::int64_t> take_entry(std::int64_t size_bytes) override;
    void give_entry_back(std::int64_t entry) noexcept override;
    [[nodiscard]] Reservation const* room_of(std::int64_t entry) const;
    [[nodiscard]] std::vector<Fault> faults_at(Direction way, std::int64_t number) const
        SPILLWAY_REQUIRES(guard_);
    [[nodiscard]] bool is_full(std::int64_t reserve_number) const SPILLWAY_REQUIRES(guard_);

    void enter(Operation operation);
    void start_ripe();
    void start(Operation operation);
    void start_store(Operation operation);
    void start_load(Operation operation);
    void delay(Operation operation) SPILLWAY_REQUIRES(guard_);
    void run_delayed();

    std::unique_ptr<Tier> const wrapped_;
    mutable Mutex guard_;
    std::vector<Fault> script_ SPILLWAY_GUARDED_BY(guard_);
    /// By our entry.
    std::map<std::int64_t, std::unique_ptr<Reservation>> rooms_ SPILLWAY_GUARDED_BY(guard_);
    std::int64_t next_entry_ SPILLWAY_GUARDED_BY(guard_) = 0;
    std::int64_t reserves_ SPILLWAY_GUARDED_BY(guard_) = 0;
    std::int64_t operations_[2] SPILLWAY_GUARDED_BY(guard_) = {0, 0};  ///< by Direction
    std::deque<Operation> held_ SPILLWAY_GUARDED_BY(guard_);
    std::int64_t under_way_ SPILLWAY_GUARDED_BY(guard_) = 0;  ///< entered, `done` not yet returned

    ConditionVariable changed_;
    std::deque<Operation> delayed_ SPILLWAY_GUARDED_BY(guard_);
    std::int64_t delay_ms_ SPILLWAY_GUARDED_BY(guard_) = 0;
    bool stopping_ SPILLWAY_GUARDED_BY(guard_) = false;
    std::thread delayer_;  ///< started with the first delayed operation
};

}  // namespace spillway
