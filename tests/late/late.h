// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The late accelerator: a torch backend (PrivateUse1, "late") on the CPU that runs its work late
// and in any legal order, so that a missing wait between streams shows. Streams, events, guards and
// tensors are torch's own; here is what a test needs beside them.
//
// Note [What makes a bug visible]
// A task runs when a host call waits or polls, chosen by the seed among the heads of all queues.
// Memory becomes 0xFF (NaN, -1) as late after its allocation and as early after its free as is
// legal, both in stream order; closures hold raw pointers. A checker sees, at enqueue, two accesses
// that nothing orders, whatever the seed.
//
// Note [What it takes as ordered]
// All host threads are one host: a missing lock between them is not seen. What a host callback has
// waited for, the host knows from when the callback runs. A free is judged where it is called. A
// tensor with strides is all bytes from its first to its last.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace late {

enum class Mode {
    lazy,         ///< nothing runs until a host call waits or polls; the seed chooses what runs
    eager,        ///< runs at once, on the executor thread; not reproducible
    virtual_time  ///< as lazy, in order of virtual time: durations are `Options::duration`'s
};

/// Nanoseconds that an operator takes which touches `size_bytes` bytes. It calls nothing of this
/// backend.
using Duration = std::function<std::int64_t(std::string_view op, std::int64_t size_bytes)>;

struct Options {
    std::uint64_t seed = 0;
    Mode mode = Mode::lazy;
    int devices = 2;                ///< before the first backward; at most 4
    std::int64_t max_delay_us = 0;  ///< eager: each task sleeps up to this long first
    Duration duration = {};         ///< virtual_time: empty means 0
    std::int64_t poll_ns = 1000;    ///< virtual_time: what a poll in vain costs the host
    std::int64_t quarantine_bytes = 64LL << 20U;  ///< freed blocks that keep their addresses
};

/// Registers the backend with torch, once a process; before the first tensor, guard or backward.
void install();

/// Waits until all is idle, then starts again: counters, reports, clocks, streams and limits are as
/// new. Blocks that live go on living.
void configure(Options options);

/// `configure` with the same options and another seed.
void reset(std::uint64_t seed);

/// Seeds the generators of all devices. A device draws what the CPU draws for the same seed.
void manual_seed(std::uint64_t seed);

/// One of the two accesses of a report.
struct Party {
    std::string op;
    std::string stream;  ///< "late:0 stream 3", or "host"
    bool writes = false;

    bool operator==(Party const&) const = default;
};

/// Two accesses to the same bytes that nothing orders, or one to bytes that were freed.
struct Report {
    enum class Kind { race, use_after_free };

    Party first{};   ///< as enqueued
    Party second{};  ///< enqueued later
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    Kind kind = Kind::race;

    [[nodiscard]] std::string text() const;
};

/// Bytes that no task may have written, and that were: past a block's ends, or after its free.
struct Damage {
    enum class Kind { before_begin, past_end, after_free };

    std::uintptr_t block = 0;
    std::int64_t size_bytes = 0;
    std::int64_t offset_bytes = 0;  ///< of the first such byte, from the block's first
    Kind kind = Kind::after_free;
};

struct DeviceStats {
    std::int64_t used_bytes = 0;  ///< in live blocks, and in those that another stream still holds
    std::int64_t held_bytes = 0;  ///< in the latter
    std::int64_t peak_bytes = 0;
    std::int64_t live_blocks = 0;
};

struct Stats {
    std::vector<DeviceStats> devices;
    DeviceStats pinned;
    std::int64_t launches = 0;     ///< tasks enqueued
    std::int64_t executed = 0;     ///< tasks run
    std::int64_t inferred = 0;     ///< launches whose result shape took a throw-away run
    std::uint64_t order_hash = 0;  ///< of the tasks in the order in which they ran
};

[[nodiscard]] std::vector<Report> reports();
[[nodiscard]] Stats stats();
/// Waits until all is idle, and looks at every block, dead or alive.
[[nodiscard]] std::vector<Damage> damage();
/// The peak starts again from what is in use.
void reset_peak(c10::DeviceIndex device);
/// From now on an allocation above it throws c10::OutOfMemoryError; 0: no limit.
void set_limit(c10::DeviceIndex device, std::int64_t limit_bytes);
/// What a block of `size_bytes` counts for.
[[nodiscard]] std::int64_t rounded(std::int64_t size_bytes);

/// Runs all that is enqueued; in virtual time the host waits for it. Orders nothing for the
/// checker.
void wait_idle();
/// Runs one to three tasks, if there are so many. For loops that wait for a host callback.
void poll();

/// While it lives, tasks run whoever waits: for host waits that the backend cannot see.
class KeepRunning {
  public:
    KeepRunning();
    KeepRunning(KeepRunning const&) = delete;
    KeepRunning& operator=(KeepRunning const&) = delete;
    ~KeepRunning();
};

/// While it lives, the devices have failed: what is enqueued, recorded, waited for, asked or made
/// current is refused with these words. Blocks are still allocated and freed; nothing is checked.
class Failure {
  public:
    explicit Failure(std::string why);
    Failure(Failure const&) = delete;
    Failure& operator=(Failure const&) = delete;
    ~Failure();
};

/// While it lives, the device has no events left for the calling thread: to record one and to have
/// a stream wait for one is refused. All else works.
class NoEvents {
  public:
    NoEvents();
    NoEvents(NoEvents const&) = delete;
    NoEvents& operator=(NoEvents const&) = delete;
    ~NoEvents();
};

/// virtual_time: the host's clock; in a host callback, the callback's.
[[nodiscard]] std::int64_t virtual_now();
/// virtual_time: the host is busy for so long.
void advance_host(std::int64_t ns);
/// virtual_time: the host has waited until then, for something that the backend does not see.
void advance_host_to(std::int64_t ns);

/// Enqueues a copy. Either side is of a device, pinned, or plain host memory.
///
/// Order   returns at once, except that with plain host memory it waits for the stream, as CUDA
/// does
void copy_async(void* to, void const* from, std::size_t size_bytes, c10::Stream stream);

/// Enqueues a call on the executor's thread. It must not wait for the device.
void call_on_stream(c10::Stream stream, std::function<void()> call);

/// Bytes that a task touches.
struct Touched {
    void const* bytes = nullptr;
    std::size_t size_bytes = 0;
    bool writes = false;
};

/// Enqueues a kernel of one's own, with all that it touches of devices and pinned memory.
void launch(
    c10::Stream stream,
    std::string name,
    std::vector<Touched> const& touched,
    std::function<void()> kernel
);

/// Enqueues what the end of a block's life does to its bytes, for arenas that cut blocks of theirs
/// from one of ours.
void poison_async(void* bytes, std::size_t size_bytes, c10::Stream stream);

/// A block of the stream's device, as a tensor made on that stream would have; it is freed on it.
///
/// Order   the block is the stream's: another one waits for it before it touches the block
/// Fails   c10::OutOfMemoryError at the limit
[[nodiscard]] void* allocate_bytes(std::size_t size_bytes, c10::Stream stream);
[[nodiscard]] void* allocate_pinned(std::size_t size_bytes);
/// Frees a block of either kind, named by its first byte; nullptr is allowed.
void free_bytes(void* block) noexcept;
/// The block's bytes are not taken away before what is now enqueued at its free on `stream` has
/// run.
void record_stream(void* block, c10::Stream stream);

/// The host, or code that the backend does not see, accesses these bytes now.
void host_reads(void const* bytes, std::size_t size_bytes, std::string_view name);
void host_writes(void* bytes, std::size_t size_bytes, std::string_view name);

}  // namespace late
