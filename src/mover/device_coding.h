// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Encodes and decodes by a device whose memory the host does not reach: kernels on side streams of
// its own, between the device's memory and as much of it as coded staging has, and one copy on a
// stream between both. The host writes and checks the headers (coding_job.h).
#pragma once

#include "memory/device.h"
#include "mover/coding.h"
#include "mover/device_coder.h"
#include "mover/lanes.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace spillway {

/// Thread  not thread-safe: the mover's lock guards it
class DeviceCoding {
  public:
    /// Takes as many bytes of the device as `staging` has; none where `coder` is null or `staging`
    /// empty. All three outlive it.
    DeviceCoding(Device& device, DeviceCoder* coder, std::span<std::byte const> staging);
    DeviceCoding(DeviceCoding const&) = delete;
    DeviceCoding& operator=(DeviceCoding const&) = delete;
    ~DeviceCoding();

    /// False: it was not asked to code, or the device had no memory.
    [[nodiscard]] bool has_memory() const { return memory_ != nullptr; }

    /// Enqueues the encode of a move's bytes, and the copies of the block and of some raw samples
    /// behind it to `to`, of staging. What was refused is `move.refusal`.
    void encode(Move& move, BlockCode const& code, std::span<std::byte> to);
    /// Enqueues the copy of a block from staging, and its decode into the move's bytes.
    void decode(Move& move, Encoding const& encoding, std::span<std::byte const> from);

  private:
    [[nodiscard]] Result<void> copy_out(
        Move const& move, Encoding const& encoding, std::span<std::byte> to
    );
    void finish(Move& move, StreamId stream, Result<void> const& enqueued);
    /// The same place of the device's memory.
    [[nodiscard]] std::byte* on_device(std::span<std::byte const> room) const {
        return memory_ + (room.data() - staging_.data());
    }

    Device& device_;
    DeviceCoder* const coder_;
    std::span<std::byte const> const staging_;
    std::byte* memory_ = nullptr;
};

}  // namespace spillway
