// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which saved tensors may leave the device.
#pragma once

#include "torch_driver/allocator/device_blocks.h"
#include "torch_driver/states/owned_storages.h"

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>

namespace spillway {

/// Whether a saved tensor may leave the device, and if not, why.
enum class Stay : std::uint8_t {
    may_leave,
    no_plain_tensor,  ///< sparse, a wrapper class, a wrapper of torch.func or a tracer
    python_class,     ///< a subclass that a Function saved: kept as it is, class and attributes
    other_device,
    small,
    long_for_tier,  ///< behind a GPU, with NVMe and no host budget
    foreign_block,  ///< allocated outside the session, or a view of foreign memory
    owned,          ///< parameter, buffer, gradient, optimizer state
};

/// Thread  any; it never changes, and what it asks locks for itself
class Eligibility {
  public:
    /// Both outlive it. Storages of less than `min_value_bytes` stay.
    Eligibility(
        DeviceBlocks const& blocks, OwnedStorages const& owned, std::int64_t min_value_bytes
    );

    /// Of a tensor on `storage`: a plain strided tensor, no subclass, may leave if it is large
    /// enough, on a storage that the session's device allocated and that is not owned. Whether it
    /// is owned is asked last, and not of what stays for another reason.
    [[nodiscard]] Stay stay_of(at::Tensor const& tensor, c10::StorageImpl const& storage) const;

    /// Of a strided tensor on the session's device without further dispatch keys.
    [[nodiscard]] bool is_plain(at::Tensor const& tensor) const {
        return tensor.key_set() == plain_keys_;
    }

  private:
    DeviceBlocks const& blocks_;
    OwnedStorages const& owned_;
    std::int64_t const min_value_bytes_;
    c10::DispatchKeySet const plain_keys_;
};

}  // namespace spillway
