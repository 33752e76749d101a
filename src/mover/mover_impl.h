// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The inside of the mover: its lock, its own thread, and the order in which tiers are called.
#pragma once

#include "mover/lanes.h"
#include "mover/mover.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

/// Thread  every public function may be called from any thread
class Mover::Impl {
  public:
    Impl(
        std::shared_ptr<Device> device,
        std::unique_ptr<Tier> host,
        std::unique_ptr<Tier> nvme,
        std::chrono::milliseconds patience
    )
        : patience_(patience),
          device_(std::move(device)),
          host_(std::move(host)),
          nvme_(std::move(nvme)),
          starter_([this] { run_starter(); }) {
        SPILLWAY_ASSERT(device_ != nullptr, "a mover has a device");
    }
    ~Impl();

    Result<void> reserve(Pool pool, BlockId block, std::int64_t size_bytes);
    void release(BlockId block) noexcept;
    void give(Move move);
    std::int64_t wait(std::span<CommandId const> fences);
    std::int64_t wait_for_any();
    std::vector<Completion> take_completions();

    bool ended(CommandId fence) const {
        std::lock_guard const lock(guard_);
        return lanes_.ended(fence);
    }
    std::int64_t under_way() const {
        std::lock_guard const lock(guard_);
        return lanes_.under_way();
    }
    bool has_completions() const noexcept {
        return ended_count_.load(std::memory_order_acquire) > 0;
    }
    Device& device() { return *device_; }
    bool forked() const { return ::getpid() != owner_; }
    Tier* tier(Pool pool) const;

  private:
    struct Room {
        Pool pool = Pool::host;
        Reservation bytes;
        std::int64_t moves = 0;  ///< given and not ended
    };
    struct Ended {
        Completion completion;
        std::shared_ptr<void const> hold;
    };
    using Lock = std::unique_lock<std::mutex>;

    void run_starter();
    void start_ready(std::size_t lane, Lock& lock);
    void start(Move& move, Lock& lock);
    void on_done(CommandId fence, Result<void> outcome);
    void on_device_ready(CommandId fence);
    void end(CommandId fence, Result<void> outcome, std::optional<Failure> failure);
    void wake_starter();
    template <typename Condition>
    std::int64_t wait_until(Lock& lock, char const* who, Condition const& condition);
    void say_who_waits(char const* who, std::chrono::nanoseconds waited) const;

    pid_t const owner_ = ::getpid();
    std::chrono::milliseconds const patience_;
    std::shared_ptr<Device> const device_;  ///< the second owner is the driver
    std::unique_ptr<Tier> host_;
    std::unique_ptr<Tier> nvme_;

    mutable std::mutex guard_;          ///< of what follows; never held across a call of a tier
    std::condition_variable ended_cv_;  ///< a move ended, or the device called back
    std::condition_variable starter_cv_;
    Lanes lanes_;
    std::array<bool, Lanes::kCount> starting_{};  ///< a thread is at work on that lane
    std::unordered_map<BlockId, Room> rooms_;
    std::vector<Ended> ended_;
    std::atomic<std::int64_t> ended_count_{0};
    std::int64_t device_calls_ = 0;  ///< callbacks asked for that have not come
    bool starter_needed_ = false;
    bool stopping_ = false;
    std::thread starter_;  ///< last: it uses all of the above
};

}  // namespace spillway
