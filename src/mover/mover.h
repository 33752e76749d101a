// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Carries out the commands that move bytes: room on tiers and on the device, stores and loads that
// wait for fences, and what became of them. It decides nothing.
#pragma once

#include "base/clock.h"
#include "base/ids.h"
#include "base/place.h"
#include "base/result.h"
#include "memory/device.h"
#include "memory/held_bytes.h"
#include "memory/host_memory.h"
#include "mover/coding.h"
#include "mover/device_coder.h"
#include "tier/tier.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace spillway {

/// A store, load, encode or decode that has ended, well or not.
struct Completion {
    CommandId command;
    Result<void> outcome;
    Interval on_codec = {};   ///< it was encoded or decoded; measured as `on_tier`
    Interval on_tier = {};    ///< the tier had it; measured where MoverOptions::measure asks
    Interval on_stream = {};  ///< its copy was on the device's stream, by the device's clock
};

/// Streams of compute stood still for a copy.
struct StreamStall {
    bool for_store = false;
    Interval time = {};
};

/// What the copies did that have passed on the device's streams; zeros where there are no streams.
struct StreamCounters {
    std::int64_t out_bytes = 0;  ///< from the device
    std::int64_t out_ns = 0;     ///< that the copies took
    std::int64_t in_bytes = 0;
    std::int64_t in_ns = 0;
    std::int64_t stall_store_ns = 0;  ///< streams of compute stood still for copies out
    std::int64_t stall_load_ns = 0;   ///< and for copies in
};

inline constexpr std::chrono::milliseconds kPatience{30'000};

struct MoverOptions {
    /// A wait that is longer goes on, and says who waits for what.
    std::chrono::milliseconds patience = kPatience;
    /// Memory that the device copies to and from, for tiers without memory of their own. What is
    /// longer cannot go there.
    HostMemory staging = {};
    /// Memory for coded bytes between codec and tier: half for blocks that leave, half for those
    /// that return. Empty: nothing can be encoded. Where the host does not reach the device the
    /// mover takes as much of that.
    HostMemory coded = {};
    /// Encodes and decodes where the host does not reach the device; null: nothing does there.
    std::shared_ptr<DeviceCoder> coder = nullptr;
    /// The share of the cores that encode and decode; 0: whoever starts a command does.
    int codec_threads = 1;
    /// Completions tell from when to when, and stalls of streams are kept. Costs two looks at a
    /// clock for each move.
    bool measure = false;
    /// False: what waits is started by whoever calls. For tests that must be repeatable.
    bool own_thread = true;
};

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
    [[nodiscard]] std::int64_t most_coded_bytes() const;
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

    /// The stalls of streams that ended since the last call, where they are measured.
    [[nodiscard]] std::vector<StreamStall> take_stream_stalls();

    /// Whether `take_completions` has something to hand over. One atomic load, and while copies are
    /// on streams a question to the device.
    [[nodiscard]] bool has_completions();

    /// Commands given that have not ended.
    [[nodiscard]] std::int64_t under_way() const;

    [[nodiscard]] Device& device();
    /// nullptr where the pool does not exist (the device pool never is a tier).
    [[nodiscard]] Tier* tier(Pool pool);
    /// Zeros where the pool does not exist.
    [[nodiscard]] TierCounters counters(Pool pool) const;
    [[nodiscard]] StreamCounters stream_counters() const;
    /// As it was given.
    [[nodiscard]] HostMemory const& staging() const;
    [[nodiscard]] HostMemory const& coded_staging() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace spillway
