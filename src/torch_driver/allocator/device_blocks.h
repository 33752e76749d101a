// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The blocks of a session's device, as torch's storages hold them: whose a storage's block is, what
// a block that came back is to torch, and the order in which streams use one.
#pragma once

#include "memory/device.h"
#include "torch_driver/device/session_device.h"

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>
#include <c10/util/ArrayRef.h>

#include <cstddef>
#include <memory>

namespace spillway {

/// Thread  any
class DeviceBlocks {
  public:
    /// Shares `device` with the blocks that came back.
    DeviceBlocks(std::shared_ptr<Device> device, TorchPlace place);

    [[nodiscard]] Device& device() const { return *device_; }
    [[nodiscard]] TorchPlace const& place() const { return place_; }

    /// The storage holds one block of the device's, whole. That changes when it is resized, goes to
    /// shared memory, or is to be copied on a write.
    [[nodiscard]] bool is_block_of(c10::StorageImpl const& storage) const;
    /// Where streams order, false for a block that was allocated before the session.
    [[nodiscard]] bool stream_is_known(void const* block) const;

    /// The block of `storage`, if it came back, is freed after what the current stream has done.
    void add_current_user(c10::StorageImpl const& storage) const;
    /// What `later` does from now on comes after what `earlier` has done. Nothing where they are
    /// one, or the device does not know one.
    void order(StreamId earlier, StreamId later) const;
    /// What the first of `users` does from now on comes after what the others have done.
    void wait_for_all(c10::ArrayRef<StreamId> users) const;

    /// Owns `memory`, a block that came back for the stream `user`. A program may use it on the
    /// stream that had it first, `home`, as that is where plain training frees it.
    [[nodiscard]] c10::DataPtr data_of(void* memory, StreamId user, StreamId home) const;
    /// As `data_of` for a block that torch allocated on the current stream: it is `storage`'s no
    /// longer.
    [[nodiscard]] c10::Storage came_back(c10::Storage&& storage, StreamId home) const;
    /// A storage of `size_bytes`, as torch makes them: a program may resize it.
    [[nodiscard]] c10::Storage storage_of(c10::DataPtr data, std::size_t size_bytes) const;

  private:
    [[nodiscard]] c10::Stream stream_of_torch(StreamId stream) const;

    std::shared_ptr<Device> const device_;
    TorchPlace const place_;
};

}  // namespace spillway
