// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the runtime needs of a device: bytes under a limit, streams that do work in order, events
// that show how far a stream has come, and copies.
#pragma once

#include "base/ids.h"
#include "base/result.h"

#include <cstdint>
#include <memory>

namespace spillway {

using StreamId = Id<struct StreamTag>;  ///< a queue of the device's own; work on it runs in order

/// A position on a stream; it has passed when all that was enqueued before it is done. What one is
/// inside is the device's.
class StreamEvent {
  public:
    StreamEvent() = default;
    StreamEvent(StreamEvent const&) = delete;
    StreamEvent& operator=(StreamEvent const&) = delete;
    virtual ~StreamEvent() = default;
};

/// Shared by the moves that wait for it; null has passed.
using StreamEventRef = std::shared_ptr<StreamEvent const>;

/// The device pool in bytes, as its allocator rounds.
struct DeviceUsage {
    std::int64_t used_bytes = 0;           ///< in live blocks
    std::int64_t peak_bytes = 0;           ///< the most ever in use
    std::int64_t resident_bytes = 0;       ///< taken from the system: used, and free but kept
    std::int64_t resident_peak_bytes = 0;  ///< the most of it
    std::int64_t allocations = 0;          ///< live blocks
    /// Free pages given back to the system so far, to make room for a block that fitted nowhere. 0
    /// where PyTorch's allocator is the pool.
    std::int64_t discarded_bytes = 0;

    bool operator==(DeviceUsage const&) const = default;
};

/// Thread  every function may be called from any thread
class Device {
  public:
    Device() = default;
    Device(Device const&) = delete;
    Device& operator=(Device const&) = delete;
    virtual ~Device() = default;

    /// Whether the host, and so every tier, reads and writes device memory in place. Then what is
    /// put on a stream is done on return, and every event has passed.
    [[nodiscard]] virtual bool is_host() const = 0;

    /// A block of `rounded(size_bytes)` bytes, or nullptr when it does not fit under the limit.
    /// Never waits.
    ///
    /// Order   the block is `stream`'s: another one waits for it before it touches the block, and
    ///         it waits for the other one before the block is freed
    [[nodiscard]] virtual void* try_allocate(std::int64_t size_bytes, StreamId stream) noexcept = 0;
    virtual void free(void* block) noexcept = 0;
    [[nodiscard]] virtual std::int64_t rounded(std::int64_t size_bytes) const = 0;
    [[nodiscard]] virtual bool owns(void const* address) const noexcept = 0;
    /// The rounded size of a live block, named by its first byte (checked).
    [[nodiscard]] virtual std::int64_t size_of(void const* block) const = 0;

    [[nodiscard]] virtual DeviceUsage usage() const = 0;
    /// Device memory that is in no such block and not kept for one: the context of this process,
    /// and what others took. 0 where the device does not report it.
    [[nodiscard]] virtual std::int64_t other_bytes() const { return 0; }
    /// The `used_bytes` of `usage`, for those who ask often.
    [[nodiscard]] virtual std::int64_t used_bytes() const { return usage().used_bytes; }
    /// The most in use since the last call; starts again from what is in use now.
    [[nodiscard]] virtual std::int64_t take_peak() = 0;
    /// 0: there is none.
    [[nodiscard]] virtual std::int64_t limit_bytes() const = 0;
    /// Counts bytes that others allocated as used from now on, in place of those charged before:
    /// what the session owns and was there before it.
    virtual void charge(std::int64_t outside_bytes) = 0;
    /// Besides the limit: what this session's budget and a session's around it both count takes at
    /// most this. kUnbound: whatever it takes.
    virtual void bound(std::int64_t bound_bytes) = 0;
    static constexpr std::int64_t kUnbound = -1;

    /// The calling thread, one of the runtime's own, will use this device and no other.
    virtual void enter_thread() {}

    /// The calling thread's, asked anew at every call: programs change it.
    [[nodiscard]] virtual StreamId current_stream() const = 0;
    /// The stream that a live block was allocated on; invalid where the device does not know.
    [[nodiscard]] virtual StreamId stream_of(void const* block) const = 0;
    [[nodiscard]] virtual StreamId copy_out_stream() const = 0;
    [[nodiscard]] virtual StreamId copy_in_stream() const = 0;

    /// The position after all work enqueued on `stream` so far.
    [[nodiscard]] virtual StreamEventRef record(StreamId stream) = 0;
    /// What is enqueued on `stream` from now on starts after `event`. Returns at once.
    virtual void wait(StreamId stream, StreamEventRef const& event) = 0;
    [[nodiscard]] virtual bool passed(StreamEventRef const& event) = 0;
    /// The device's time between two events that have passed.
    [[nodiscard]] virtual std::int64_t elapsed_ns(
        StreamEventRef const& from, StreamEventRef const& to
    ) const = 0;

    /// Enqueues a copy of `size_bytes` on `stream`; one side is host memory.
    ///
    /// Order   both spans stay alive until the stream has passed the copy
    /// Fails   Errc::io: the device refuses it, in the device's words; nothing is enqueued then
    [[nodiscard]] virtual Result<void> copy(
        void* to, void const* from, std::int64_t size_bytes, StreamId stream
    ) = 0;
};

}  // namespace spillway
