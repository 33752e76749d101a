// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Carries out the commands that move bytes: room on tiers and on the device, stores and loads that
// wait for fences, and what became of them. It decides nothing.
#pragma once

#include "base/ids.h"
#include "base/mutex.h"
#include "base/place.h"
#include "base/result.h"
#include "memory/device.h"
#include "memory/held_bytes.h"
#include "memory/host_memory.h"
#include "mover/coding.h"
#include "mover/completion.h"
#include "mover/host_coding.h"
#include "mover/mover_options.h"
#include "mover/moves.h"
#include "tier/tier.h"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <thread>
#include <vector>

namespace spillway {

/// Note [How commands wait]
/// There is a lane for each away pool and direction. On a lane commands start in the order in which
/// they were given; a command starts when those before it have started and all fences of its
/// `after` have ended. Commands of different lanes are ordered by `after` alone. Where a fence of
/// `after` failed the command does not start; it fails itself with Errc::cancelled and the `where`
/// of the first failure. A fence that is not a command of this mover counts as ended well.
///
/// Encodes are on one lane of their own, and decodes on one for each away pool. A decode whose load
/// failed fails with the load's own error. Encodes and decodes on the host run on threads of the
/// mover, decodes first where both could, since compute waits for them. Room for coded bytes is
/// taken when an encode, or the load of a coded block, starts, and given back when the store or
/// decode after it has ended; what finds none waits. So that none waits for ever, stores are given
/// in the order of their encodes, and decodes in the order of their loads: threads that give
/// commands take turns for such a pair. A device that the host does not reach encodes on a stream
/// of its own into the same room of its own memory; a copy brings the bytes here, and they are
/// sealed when it has passed. So the end of an encode, and of a coded store, is the host's to wait
/// for: only then is it known that no element was refused. A decode is ordered on streams, as a
/// load.
///
/// Where the host cannot reach the device's memory, a store or load is a copy on the device's
/// copy-out or copy-in stream. Between streams nothing but events orders: the copy waits there for
/// what the streams of its bytes had enqueued when it was given; a load waits there for the copy of
/// its store, so that it starts at once; and `wait` makes the calling thread's stream wait, not the
/// thread. A tier with memory of its own (Tier::memory) is copied to directly. For others the bytes
/// go through staging: the tier is called when the copy out has passed, the copy in is enqueued
/// when the tier has ended, and a move starts when staging has room.
///
/// What can start does so on the thread that gives the command; what waits is started later by the
/// mover's own thread, so that neither tiers nor devices are called from their own callbacks. That
/// a copy has passed is noticed by those who ask for completions or wait.
///
/// Thread  every function may be called from any thread
class Mover {
  public:
    /// `host` and `nvme` may be null: that pool does not exist. `device` is shared with the driver.
    Mover(
        std::shared_ptr<Device> device,
        std::unique_ptr<Tier> host,
        std::unique_ptr<Tier> nvme,
        MoverOptions options = {}
    );
    Mover(Mover const&) = delete;
    Mover& operator=(Mover const&) = delete;
    /// Waits for what has started; what has not never starts. Hands all rooms back.
    ~Mover();
    /// In a forked child it does nothing: all of it is the parent's, and no function may be called.
    static void operator delete(Mover* mover, std::destroying_delete_t);

    /// Sets `size_bytes` (> 0) on an away pool aside for `block`.
    ///
    /// Fails   Errc::tier_full, also where the pool does not exist
    [[nodiscard]] Result<void> reserve(Pool pool, BlockId block, std::int64_t size_bytes);

    /// Hands the room of `block` back.
    ///
    /// Order   after all its stores and loads have ended (checked)
    void release(BlockId block) noexcept;

    /// Device bytes of `stream` for a value that returns. Never waits.
    ///
    /// Fails   Errc::out_of_memory, with what was asked for, what is left and the limit
    [[nodiscard]] Result<void*> reserve_device(std::int64_t size_bytes, StreamId stream);
    void release_device(void* bytes) noexcept;

    /// Stores `from` in the room of `block`; ended when `fence` has.
    ///
    /// Order   the bytes stay unchanged until the fence. Their hold is released by the thread that
    ///         takes the completion, waits for the fence or destroys the mover, never by one of
    ///         ours
    void store(CommandId fence, BlockId block, HeldBytes from, std::span<CommandId const> after);

    /// Loads what was stored in the room of `block` into `to`. `after` names its store unless that
    /// has ended.
    ///
    /// Order   as `store`
    void load(CommandId fence, BlockId block, HeldBytes to, std::span<CommandId const> after);

    /// Encodes the first bytes of `from`, as many as the encoding has, for the room of `block`.
    /// From here on the block is a coded one: its store stores the coded bytes, which may be fewer
    /// than the room, and its loads load them, for a decode; both are given no bytes of the device.
    /// Where the host does not reach the device, with a codec that its coder takes.
    ///
    /// Order   once a block, before its store, which names `fence`; `from` as with `store`
    /// Fails   through its completion: Errc::unsupported, what the codec cannot hold. The store
    ///         after it is cancelled
    void encode(
        CommandId fence,
        BlockId block,
        HeldBytes from,
        BlockCode const& code,
        std::span<CommandId const> after
    );

    /// Decodes what a load brought into the first bytes of `to`. `after` names that load.
    ///
    /// Order   once after each load of a coded block
    /// Fails   through its completion: Errc::corrupt, naming the tier; the load's own error
    void decode(CommandId fence, BlockId block, HeldBytes to, std::span<CommandId const> after);

    /// Whether blocks can be encoded by this codec.
    [[nodiscard]] bool codes(Codec const& codec) const;
    /// The longest coded block; 0: nothing can be encoded.
    [[nodiscard]] std::int64_t most_coded_bytes() const { return most_coded_bytes_; }
    /// By label and codec, in order of first use.
    [[nodiscard]] std::vector<CodingCounters> coding_counters() const;
    /// Of a block that has room.
    [[nodiscard]] Pool pool_of(BlockId block) const;
    /// Whether it was given to `encode`.
    [[nodiscard]] bool is_coded(BlockId block) const;

    /// True when the command has ended, well or not, or never was one of ours.
    [[nodiscard]] bool ended(CommandId fence) const;

    /// What compute does from now on comes after every fence in `fences`: the calling thread waits,
    /// or where streams order, its current stream and that of the move's bytes do. Returns the
    /// nanoseconds that the thread waited.
    std::int64_t wait(std::span<CommandId const> fences);

    /// Blocks until there is a completion to take or nothing is under way. Returns nanoseconds.
    std::int64_t wait_for_any();

    /// Tier::end_limits of all.
    void end_limits() noexcept;

    /// Hands over what ended since the last call, in the order in which it ended, and lets go of
    /// its holds.
    [[nodiscard]] std::vector<Completion> take_completions();

    /// The stalls of streams that ended since the last call, where they are measured or kept.
    [[nodiscard]] std::vector<StreamStall> take_stream_stalls();
    /// Whether they are kept for that although nothing is measured.
    void keep_stream_stalls(bool keep);

    /// Whether `take_completions` has something to hand over. One atomic load, and while copies are
    /// on streams a question to the device.
    [[nodiscard]] bool has_completions();

    /// Commands given that have not ended.
    [[nodiscard]] std::int64_t under_way() const;

    [[nodiscard]] Device& device() { return *device_; }
    /// nullptr where the pool does not exist (the device pool never is a tier).
    [[nodiscard]] Tier* tier(Pool pool) const;
    /// Zeros where the pool does not exist.
    [[nodiscard]] TierCounters counters(Pool pool) const;
    [[nodiscard]] StreamCounters stream_counters() const;
    /// As it was given.
    [[nodiscard]] HostMemory const& staging() const { return options_.staging; }
    [[nodiscard]] HostMemory const& coded_staging() const { return options_.coded; }

  private:
    void start_threads();
    void run_starter() SPILLWAY_EXCLUDES(mutex_);
    void give(Move move) SPILLWAY_EXCLUDES(mutex_);
    void start_all() SPILLWAY_REQUIRES(mutex_);
    void start_ready(std::size_t lane) SPILLWAY_REQUIRES(mutex_);
    void carry_out(Outside const& work) SPILLWAY_REQUIRES(mutex_);
    void call_tier(TierCall const& call) SPILLWAY_EXCLUDES(mutex_);
    void coded(CodingJob const& job, CodingResult const& result) SPILLWAY_EXCLUDES(mutex_);
    void pass_news_on() SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] bool any_ready() SPILLWAY_REQUIRES(mutex_);
    std::int64_t wait_until(char const* who, std::function<bool()> const& condition)
        SPILLWAY_REQUIRES(mutex_);

    pid_t const owner_ = ::getpid();
    MoverOptions const options_;
    std::shared_ptr<Device> const device_;  ///< the second owner is the driver
    std::unique_ptr<Tier> host_;
    std::unique_ptr<Tier> nvme_;

    mutable Mutex mutex_;      ///< never held across a call of a tier or codec
    ConditionVariable ended_;  ///< a move ended
    ConditionVariable starter_wakes_;
    Moves moves_ SPILLWAY_GUARDED_BY(mutex_);
    /// A thread is at work on that lane.
    std::array<bool, Lanes::kCount> starting_ SPILLWAY_GUARDED_BY(mutex_){};
    bool starter_needed_ SPILLWAY_GUARDED_BY(mutex_) = false;
    bool stopping_ SPILLWAY_GUARDED_BY(mutex_) = false;

    std::int64_t const most_coded_bytes_;
    std::atomic<std::int64_t> ended_count_{0};        ///< to be taken
    std::atomic<std::int64_t> copies_on_streams_{0};  ///< both written with `mutex_` held
    HostCoding host_coding_;  ///< last, as the next: they use all of the above
    std::thread starter_;
};

}  // namespace spillway
