// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The CPU as a device: bytes from an arena; what is put on a stream is done on return, so every
// event has passed as soon as it is recorded.
#pragma once

#include "base/mutex.h"
#include "memory/arena.h"
#include "memory/device.h"

#include <atomic>
#include <memory>
#include <utility>

namespace spillway {

class CpuDevice final : public Device {
  public:
    /// `arena` is shared with whoever allocates for the program's own tensors.
    explicit CpuDevice(std::shared_ptr<Arena> arena)
        : arena_(std::move(arena)), limit_bytes_(arena_->limit_bytes()) {}

    /// A device over an arena of its own.
    ///
    /// Fails   as Arena::open
    [[nodiscard]] static Result<std::shared_ptr<CpuDevice>> open(ArenaOptions options);

    [[nodiscard]] Arena& arena() { return *arena_; }

    [[nodiscard]] bool is_host() const override { return true; }
    /// Succeeds whenever used + rounded(size_bytes) <= limit.
    [[nodiscard]] void* try_allocate(std::int64_t size_bytes, StreamId stream) noexcept override;
    void free(void* block) noexcept override;
    [[nodiscard]] std::int64_t rounded(std::int64_t size_bytes) const override;
    [[nodiscard]] bool owns(void const* address) const noexcept override;
    [[nodiscard]] std::int64_t size_of(void const* block) const override;
    [[nodiscard]] DeviceUsage usage() const override;
    [[nodiscard]] std::int64_t used_bytes() const override {
        return bounded_bytes() + charged_bytes_;
    }
    [[nodiscard]] std::int64_t take_peak() override;
    [[nodiscard]] std::int64_t limit_bytes() const override { return limit_bytes_; }
    void charge(std::int64_t outside_bytes) override;

    /// Sets `bytes` of what is free aside for another device, whose blocks count here, too. False,
    /// and nothing is set aside, where fewer are free.
    [[nodiscard]] bool lend(std::int64_t bytes);
    void take_back(std::int64_t bytes);
    /// Bounds blocks and what is lent.
    void bound(std::int64_t bound_bytes) override;
    /// False, and all is as before, where more is in use.
    [[nodiscard]] bool try_bound(std::int64_t bound_bytes);
    /// What `bound` bounds.
    [[nodiscard]] std::int64_t bounded_bytes() const { return arena_->used_bytes() + lent_bytes_; }

    [[nodiscard]] StreamId current_stream() const override { return {0}; }
    [[nodiscard]] StreamId stream_of(void const*) const override { return {0}; }
    [[nodiscard]] StreamId copy_out_stream() const override { return {1}; }
    [[nodiscard]] StreamId copy_in_stream() const override { return {2}; }
    [[nodiscard]] StreamEventRef record(StreamId) override { return nullptr; }
    void wait(StreamId, StreamEventRef const&) override {}
    [[nodiscard]] bool passed(StreamEventRef const&) override { return true; }
    [[nodiscard]] std::int64_t elapsed_ns(StreamEventRef const&, StreamEventRef const&)
        const override {
        return 0;
    }
    [[nodiscard]] Result<void> copy(
        void* to, void const* from, std::int64_t size_bytes, StreamId stream
    ) override;

  private:
    std::shared_ptr<Arena> arena_;  ///< the second owner is the allocator of the driver
    std::int64_t const limit_bytes_;

    [[nodiscard]] std::int64_t arena_limit_bytes() const SPILLWAY_REQUIRES(limits_);
    void keep_peak() const SPILLWAY_REQUIRES(limits_);

    mutable Mutex limits_;
    std::atomic<std::int64_t> charged_bytes_ = 0;  ///< changed with `limits_` held
    std::atomic<std::int64_t> lent_bytes_ = 0;     ///< likewise
    std::int64_t bound_bytes_ SPILLWAY_GUARDED_BY(limits_) = kUnbound;
    mutable std::int64_t peak_bytes_ SPILLWAY_GUARDED_BY(limits_) = 0;  ///< since `take_peak`
    mutable std::int64_t all_peak_bytes_ SPILLWAY_GUARDED_BY(limits_) = 0;
};

}  // namespace spillway
