// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The ledger: what each pool outside the device has promised, and how high the device's floor (all
// that no chooser controls) has been. Only here are bytes granted.
#pragma once

#include "base/assert.h"
#include "base/place.h"
#include "executor/event.h"
#include "executor/executor_options.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace spillway {

/// Room in the away pools. A grant is whole or not at all.
///
/// Thread  not thread-safe; the executor that owns it is used under its owner's mutex
class Ledger {
  public:
    /// `reported_full`: pools of which the user knows that they take no more.
    explicit Ledger(ExecutorOptions const& options, std::vector<Pool> const& reported_full = {})
        : exists_{true, options.host_bytes > 0, options.nvme_bytes > 0},
          budget_bytes_{0, options.host_bytes, options.nvme_bytes},
          largest_bytes_{0, options.host_bytes, options.nvme_value_bytes},
          capacity_bytes_(budget_bytes_),
          reported_full_(reported_full.begin(), reported_full.end()) {}

    /// Grants `size_bytes` of `pool` for one value; false: it refuses.
    [[nodiscard]] bool take(Pool pool, std::int64_t size_bytes) {
        bool const is_granted = has_room(pool, size_bytes);
        used_bytes_[at(pool)] += is_granted ? size_bytes : 0;
        return is_granted;
    }
    [[nodiscard]] bool has_room(Pool pool, std::int64_t size_bytes) const {
        return used_bytes_[at(pool)] + size_bytes <= capacity_bytes_[at(pool)] &&
               !is_too_large(pool, size_bytes);
    }
    /// A value of `size_bytes` may never go to `pool`, however much is left there.
    [[nodiscard]] bool is_too_large(Pool pool, std::int64_t size_bytes) const {
        return largest_bytes_[at(pool)] > 0 && size_bytes > largest_bytes_[at(pool)];
    }
    void give(Pool pool, std::int64_t size_bytes) {
        used_bytes_[at(pool)] -= size_bytes;
        SPILLWAY_ASSERT(used_bytes_[at(pool)] >= 0, "a pool gets back only what it gave");
    }
    /// The place refused a store: the pool takes no more than it has. True: the user has not been
    /// notified of it yet.
    [[nodiscard]] bool close(Pool pool, std::string const& why) {
        capacity_bytes_[at(pool)] = used_bytes_[at(pool)];
        why_closed_.emplace(pool, why);
        return reported_full_.insert(pool).second;
    }
    /// All pools are tried again up to their budgets: what was full or failed may have mended.
    void reopen() {
        capacity_bytes_ = budget_bytes_;
        why_closed_.clear();
    }
    /// Why the place refused a store first since `reopen`; null: it has not.
    [[nodiscard]] std::string const* why_closed(Pool pool) const {
        auto const why = why_closed_.find(pool);
        return why == why_closed_.end() ? nullptr : &why->second;
    }
    [[nodiscard]] std::vector<Pool> reported_full() const {
        return {reported_full_.begin(), reported_full_.end()};
    }

    [[nodiscard]] bool exists(Pool pool) const { return exists_[at(pool)]; }
    [[nodiscard]] std::array<std::int64_t, kPools> const& used_bytes() const { return used_bytes_; }
    /// Nothing is away, not even on its way there.
    [[nodiscard]] bool is_empty() const {
        return used_bytes_ == std::array<std::int64_t, kPools>{};
    }

  private:
    static constexpr std::size_t at(Pool pool) { return static_cast<std::size_t>(pool); }
    std::array<bool, kPools> exists_;
    std::array<std::int64_t, kPools> budget_bytes_;
    std::array<std::int64_t, kPools> largest_bytes_;  ///< of a value; 0: any
    std::array<std::int64_t, kPools> capacity_bytes_;
    std::array<std::int64_t, kPools> used_bytes_{};
    std::map<Pool, std::string> why_closed_;  ///< in this step
    std::set<Pool> reported_full_;
};

/// How many bytes left the device in this step, and in steps before: how much a step like them has
/// to store. What is stored and never leaves was written for nothing.
///
/// Thread  as Ledger
class LeftBytes {
  public:
    LeftBytes(std::optional<std::int64_t> now_bytes, std::optional<std::int64_t> last_bytes)
        : now_bytes_(now_bytes), last_bytes_(last_bytes) {}

    /// A value was saved: from here on it is a step that tells something.
    void begin() { now_bytes_ = now_bytes_.value_or(0); }
    void add(std::int64_t size_bytes) { now_bytes_ = now_bytes_.value_or(0) + size_bytes; }
    /// Steps of several kinds may alternate: what a larger one needed is forgotten by quarters.
    void begin_step() {
        if (now_bytes_) {
            std::int64_t const before = last_bytes_.value_or(0);
            last_bytes_ = std::max(*now_bytes_, before - before / 4);
        }
        now_bytes_.reset();
    }
    /// Whether with `ready_bytes`, which can leave at once, as much is away as in steps before, and
    /// this one has not needed more yet. Not where nothing had to leave: gradients, which the first
    /// step makes, are there in the second.
    [[nodiscard]] bool suffice(std::int64_t ready_bytes) const {
        std::int64_t const now = now_bytes_.value_or(0);
        std::int64_t const last = last_bytes_.value_or(0);
        return last > 0 && now <= last && now + ready_bytes >= last;
    }
    /// Nothing before a value was saved in this step.
    [[nodiscard]] std::optional<std::int64_t> now_bytes() const { return now_bytes_; }
    /// Nothing in the first step.
    [[nodiscard]] std::optional<std::int64_t> last_bytes() const { return last_bytes_; }

  private:
    std::optional<std::int64_t> now_bytes_;
    std::optional<std::int64_t> last_bytes_;
};

/// The device's floor now and its highest point in this and the last step. The demand reserve is
/// how far it may still rise: optional loads leave that much room.
///
/// Thread  as Ledger
class Floor {
  public:
    Floor(std::int64_t now_bytes, std::int64_t peak_bytes, std::int64_t last_peak_bytes)
        : now_bytes_(now_bytes), peak_bytes_(peak_bytes), last_peak_bytes_(last_peak_bytes) {}

    /// `held_bytes`: saved values' bytes now; `held_before_bytes`: when the last event was
    /// answered.
    void see(Usage const& usage, std::int64_t held_bytes, std::int64_t held_before_bytes) {
        now_bytes_ = std::max<std::int64_t>(0, usage.used_bytes - held_bytes);
        peak_bytes_ = std::max({peak_bytes_, usage.peak_bytes - held_before_bytes, now_bytes_});
    }
    /// An allocation of `size_bytes` will rise on top of the floor.
    void will_rise(std::int64_t size_bytes) {
        peak_bytes_ = std::max(peak_bytes_, now_bytes_ + size_bytes);
    }
    void begin_step() {
        last_peak_bytes_ = peak_bytes_;
        peak_bytes_ = now_bytes_;
    }
    [[nodiscard]] std::int64_t may_rise_bytes() const {
        return std::max<std::int64_t>(0, std::max(peak_bytes_, last_peak_bytes_) - now_bytes_);
    }
    [[nodiscard]] std::int64_t now_bytes() const { return now_bytes_; }
    [[nodiscard]] std::int64_t peak_bytes() const { return peak_bytes_; }
    [[nodiscard]] std::int64_t last_peak_bytes() const { return last_peak_bytes_; }

  private:
    std::int64_t now_bytes_;
    std::int64_t peak_bytes_;
    std::int64_t last_peak_bytes_;
};

}  // namespace spillway
