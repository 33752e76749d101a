// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A device of torch whose streams run late (CUDA, or any backend with a guard and a
// DeviceAllocator), through c10's device-agnostic streams and events.
#pragma once

#include "base/mutex.h"
#include "base/result.h"
#include "memory/device.h"
#include "memory/host_memory.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/FunctionRef.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>
#include <unordered_map>

namespace spillway {

/// Bytes are those of torch's own allocator, which all threads of the process share: every
/// allocation on the device counts, and the limit holds for their sum.
class C10Device : public Device {
  public:
    /// `allocator` gives the bytes and their statistics; it stands behind ours, if that is
    /// installed. `limit_bytes` 0: none.
    C10Device(c10::Device where, c10::DeviceAllocator& allocator, std::int64_t limit_bytes);
    ~C10Device() override;

    [[nodiscard]] c10::Device where() const { return where_; }
    /// How a block is freed; a storage with this deleter has one of the allocator's blocks, whole.
    [[nodiscard]] c10::DeleterFnPtr deleter() const { return allocator_.raw_deleter(); }

    /// What torch asks for: `allocate` asks the allocator behind ours, on `stream`. False, and
    /// nothing was given, where the limit or the device has no room.
    [[nodiscard]] bool try_around(
        std::int64_t size_bytes, StreamId stream, c10::function_ref<void*()> allocate
    );

    /// Memory that the device copies to and from at full speed: pinned, where that is granted; else
    /// pageable, which is logged.
    ///
    /// Fails   as map_host_memory
    [[nodiscard]] virtual Result<HostMemory> host_memory(std::int64_t size_bytes);

    /// There is no limit from now on.
    void end_limit() { limit_bytes_ = 0; }
    /// What holds torch's own pool to the limit, for as long as it lives; null where nothing does.
    /// Handed over once: a session ends before the last block of its device.
    [[nodiscard]] virtual std::shared_ptr<void> take_pool_limit() { return nullptr; }

    [[nodiscard]] bool is_host() const override { return false; }
    [[nodiscard]] void* try_allocate(std::int64_t size_bytes, StreamId stream) noexcept override;
    void free(void* block) noexcept override;
    [[nodiscard]] std::int64_t rounded(std::int64_t size_bytes) const override;
    /// All of the device's memory is: it counts, whoever asked for it.
    [[nodiscard]] bool owns(void const*) const noexcept override { return true; }
    [[nodiscard]] std::int64_t size_of(void const* block) const override;
    [[nodiscard]] DeviceUsage usage() const override;
    [[nodiscard]] std::int64_t other_bytes() const override;
    [[nodiscard]] std::int64_t used_bytes() const override;
    [[nodiscard]] std::int64_t take_peak() override;
    [[nodiscard]] std::int64_t limit_bytes() const override;
    void charge(std::int64_t outside_bytes) override;
    /// Bounds all that is allocated.
    void bound(std::int64_t bound_bytes) override { bound_bytes_ = bound_bytes; }

    void enter_thread() override;
    [[nodiscard]] StreamId current_stream() const override;
    [[nodiscard]] StreamId stream_of(void const* block) const override;
    [[nodiscard]] StreamId copy_out_stream() const override { return id_of(copy_out_); }
    [[nodiscard]] StreamId copy_in_stream() const override { return id_of(copy_in_); }
    [[nodiscard]] StreamEventRef record(StreamId stream) override;
    void wait(StreamId stream, StreamEventRef const& event) override;
    /// Also true where the device has failed, which is logged once: torch's next call raises.
    /// (Where it only has no event left, `record` and `wait` make the calling thread wait instead.)
    [[nodiscard]] bool passed(StreamEventRef const& event) override;
    [[nodiscard]] std::int64_t elapsed_ns(StreamEventRef const& from, StreamEventRef const& to)
        const override;
    [[nodiscard]] Result<void> copy(
        void* to, void const* from, std::int64_t size_bytes, StreamId stream
    ) override;

  protected:
    /// Host memory of `size_bytes` is not pinned, for the reason `why`.
    static void warn_pageable(std::int64_t size_bytes, std::string const& why);
    [[nodiscard]] c10::Stream stream(StreamId id) const {
        return c10::Stream(c10::Stream::UNSAFE, where_, id.number);
    }
    /// One of torch's own streams of high priority, for the runtime's work.
    [[nodiscard]] StreamId stream_of_pool() const {
        return id_of(guard_.getStreamFromGlobalPool(where_, true));
    }
    /// Torch's first line: what the device refused.
    [[nodiscard]] Error refusal(std::exception const& failure) const;

  private:
    struct Block {
        std::int64_t size_bytes = 0;
        StreamId stream;
    };

    struct Siblings;

    [[nodiscard]] static StreamId id_of(c10::Stream const& stream) { return {stream.id()}; }
    void has_failed(std::exception const& failure) const;
    void wait_instead(c10::function_ref<void()> synchronize) const;
    void note_given(void const* block, Block const& given, std::int64_t used_bytes_then)
        SPILLWAY_REQUIRES(mutex_);
    void* try_on(std::int64_t size_bytes, StreamId stream, c10::function_ref<void*()> allocate);

    c10::Device const where_;
    c10::DeviceAllocator& allocator_;
    c10::impl::VirtualGuardImpl const guard_;
    c10::Stream const copy_out_;
    c10::Stream const copy_in_;
    std::atomic<std::int64_t> limit_bytes_;
    std::atomic<std::int64_t> bound_bytes_ = kUnbound;

    mutable Mutex mutex_;  ///< also from the question for room to its answer
    /// The last block given at each address. Torch does not report frees, and addresses are reused.
    std::unordered_map<void const*, Block> blocks_ SPILLWAY_GUARDED_BY(mutex_);
    std::int64_t peak_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;  ///< since `take_peak`
    std::int64_t all_peak_bytes_ SPILLWAY_GUARDED_BY(mutex_) = 0;
};

/// The device that `name` names ("cuda", "cuda:1"), under `limit_bytes` (0: none), with torch's
/// allocator for it behind ours (device_allocator.h).
///
/// Fails   Errc::bad_argument: no such type of device, none of it here, no such index, or an
///         allocator that reports no statistics
[[nodiscard]] Result<std::shared_ptr<C10Device>> open_c10_device(
    std::string const& name, std::int64_t limit_bytes
);

}  // namespace spillway
