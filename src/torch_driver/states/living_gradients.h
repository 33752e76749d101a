// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The gradients that parameters have now. A backward makes them one by one, and they are reported
// to the session when it has ended.
#pragma once

#include "base/mutex.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/TensorImpl.h>

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace spillway {

/// Thread  any; one mutex, and nothing else is called under it. A gradient is read as torch's own
///         `.grad` reads it, without a lock: on a thread that runs a backward or an optimizer
class LivingGradients {
  public:
    /// Counts what is on `where`.
    explicit LivingGradients(c10::Device where) : where_(where) {}

    /// Adds those that are leaves and require a gradient; now and then forgets those that have
    /// gone.
    void add(std::vector<at::Tensor> const& tensors);

    /// Nobody trains: torch exchanges the two sides of a parameter (`swap_tensors`) only where
    /// nothing refers to it weakly.
    void clear();

    /// Each storage once, as torch asked for it; none of `counted`.
    [[nodiscard]] std::int64_t bytes(std::unordered_set<c10::StorageImpl const*> counted = {})
        const;

  private:
    c10::Device const where_;
    mutable Mutex mutex_;
    std::unordered_map<c10::TensorImpl const*, c10::weak_intrusive_ptr<c10::TensorImpl>> leaves_
        SPILLWAY_GUARDED_BY(mutex_);
    std::size_t prune_at_ SPILLWAY_GUARDED_BY(mutex_) = 64;
};

}  // namespace spillway
