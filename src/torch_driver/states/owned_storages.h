// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The storages of parameters, buffers, gradients and optimizer state. They count in the device
// budget, whoever allocated them, and stay where they are.
#pragma once

#include "base/mutex.h"
#include "memory/device.h"
#include "spillway/owned.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace spillway {

/// Thread  any; one mutex, and nothing else is called under it
class OwnedStorages {
  public:
    /// Bytes are counted of storages on `where`, which `device` is to torch.
    OwnedStorages(std::shared_ptr<Device const> device, c10::Device where)
        : device_(std::move(device)), where_(where) {}

    /// Adds the storages of `tensors`; forgets those that have gone. A storage that was there gets
    /// the new name and kind. Tensors without a storage are left out.
    ///
    /// `names` and `kinds` are theirs in the same order, as far as they are given; a tensor without
    /// a kind is a parameter if it is a leaf that requires a gradient, else a buffer.
    void add(
        std::vector<at::Tensor> const& tensors,
        std::vector<std::string> const& names = {},
        std::vector<OwnedKind> const& kinds = {}
    );

    /// It is nobody's any more.
    void forget(c10::StorageImpl const& storage);

    [[nodiscard]] bool has(c10::StorageImpl const& storage) const;
    /// Nothing: it is not owned. A gradient is, and backward writes it.
    [[nodiscard]] std::optional<OwnedKind> kind_of(c10::StorageImpl const& storage) const;
    /// "transformer.h.0.mlp.c_fc.weight"; null where it is not owned or has no name.
    [[nodiscard]] std::shared_ptr<std::string const> name_of(c10::StorageImpl const& storage) const;

    /// Of those that live, each storage once, as torch asked for them; 0 of one that is only a size
    /// (storage_bytes.h).
    [[nodiscard]] OwnedBytes bytes() const;
    /// Of those that live, the bytes that the device's allocator did not give: allocated before the
    /// session, or around it.
    [[nodiscard]] std::int64_t outside_bytes() const;

    using Living = std::vector<std::pair<c10::intrusive_ptr<c10::StorageImpl>, OwnedKind>>;

    /// Those on the device.
    [[nodiscard]] Living living() const;

  private:
    struct Owned {
        c10::weak_intrusive_ptr<c10::StorageImpl> storage;  ///< keeps its address from another one
        OwnedKind kind = OwnedKind::parameter;
        std::shared_ptr<std::string const> name;
    };
    std::shared_ptr<Device const> const device_;
    c10::Device const where_;
    mutable Mutex mutex_;
    std::unordered_map<c10::StorageImpl const*, Owned> owned_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
