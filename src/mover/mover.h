// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Carries out the commands that move bytes: room on tiers and on the device, stores and loads that
// wait for fences, and what became of them. It decides nothing.
#pragma once

#include "base/ids.h"
#include "base/place.h"
#include "base/result.h"
#include "mover/device.h"
#include "tier/tier.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace spillway {

/// A store or load that has ended, well or not.
struct Completion {
    CommandId command;
    Result<void> outcome;
};

inline constexpr std::chrono::milliseconds kPatience{30'000};

/// Note [How commands wait]
/// There is a lane for each away pool and direction. On a lane commands start in the order in which
/// they were given; a command starts when those before it have started, all fences of its `after`
/// have ended, and the device has done what was enqueued on its compute stream when the command was
/// given. Commands of different lanes are ordered by `after` alone. Where a fence of `after` failed
/// the command does not start; it fails itself with Errc::cancelled and the `where` of the first
/// failure. A fence that is not a command of this mover counts as ended well.
///
/// What can start does so on the thread that gives the command; what waits is started later by the
/// mover's own thread, so that neither tiers nor devices are called from their own callbacks.
///
/// Thread  every function may be called from any thread
class Mover {
  public:
    /// `host` and `nvme` may be null: that pool does not exist. `device` is shared with the driver.
    /// A wait that is longer than `patience` goes on, and says who waits for what.
    Mover(
        std::shared_ptr<Device> device,
        std::unique_ptr<Tier> host,
        std::unique_ptr<Tier> nvme,
        std::chrono::milliseconds patience = kPatience
    );
    Mover(Mover const&) = delete;
    Mover& operator=(Mover const&) = delete;
    /// Waits for what has started; what has not never starts. Hands all rooms back. In
    /// a forked child it does nothing: all of it is the parent's, and no function may be called.
    ~Mover();

    /// Sets `size_bytes` (> 0) on an away pool aside for `block`.
    ///
    /// Fails   Errc::tier_full, also where the pool does not exist
    [[nodiscard]] Result<void> reserve(Pool pool, BlockId block, std::int64_t size_bytes);

    /// Hands the room of `block` back.
    ///
    /// Order   after all its stores and loads have ended (checked)
    void release(BlockId block) noexcept;

    /// Device bytes for a value that returns. Never waits.
    ///
    /// Fails   Errc::out_of_memory, with what was asked for, what is left and the limit
    [[nodiscard]] Result<void*> reserve_device(std::int64_t size_bytes);
    void release_device(void* bytes) noexcept;

    /// Stores `from` in the room of `block`; ended when `fence` has.
    ///
    /// Order   `hold` owns `from`, which stays unchanged until the fence. It is released on the
    ///         thread that takes the completion (or destroys the mover), never on one of ours
    void store(
        CommandId fence,
        BlockId block,
        std::span<std::byte const> from,
        std::shared_ptr<void const> hold,
        std::span<CommandId const> after
    );

    /// Loads the room of `block` into `to`. `after` names its store unless that has ended.
    ///
    /// Order   as `store`: `hold` owns `to`
    void load(
        CommandId fence,
        BlockId block,
        std::span<std::byte> to,
        std::shared_ptr<void const> hold,
        std::span<CommandId const> after
    );

    /// True when the command has ended, well or not, or never was one of ours.
    [[nodiscard]] bool ended(CommandId fence) const;

    /// Blocks the calling thread until every fence in `fences` has ended. Returns the nanoseconds
    /// that took, 0 when all had.
    std::int64_t wait(std::span<CommandId const> fences);

    /// Blocks until there is a completion to take or nothing is under way. Returns nanoseconds.
    std::int64_t wait_for_any();

    /// Hands over what ended since the last call, in the order in which it ended, and lets go of
    /// its holds.
    [[nodiscard]] std::vector<Completion> take_completions();

    /// Whether `take_completions` has something to hand over. One atomic load.
    [[nodiscard]] bool has_completions() const noexcept;

    /// Commands given that have not ended.
    [[nodiscard]] std::int64_t under_way() const;

    [[nodiscard]] Device& device();
    /// nullptr where the pool does not exist (the device pool never is a tier).
    [[nodiscard]] Tier* tier(Pool pool);
    /// Zeros where the pool does not exist.
    [[nodiscard]] TierCounters counters(Pool pool) const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace spillway
