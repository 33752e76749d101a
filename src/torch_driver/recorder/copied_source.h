// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What recipes are made from that is no saved value: parameters, buffers, small tensors.
#pragma once

#include "base/mutex.h"

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>

namespace spillway {

/// The first `size_bytes` of `from`, in a storage of their own.
[[nodiscard]] c10::Storage copy_of_storage(c10::Storage const& from, std::int64_t size_bytes);

/// What a storage held when a recipe was made of it; all recipes of that share one. It is used as
/// it lies there until somebody asks for a copy: at once where it is small, else before an operator
/// writes it (Note [Parameters as sources]).
///
/// Thread  any
class CopiedSource {
  public:
    CopiedSource(c10::weak_intrusive_ptr<c10::StorageImpl> original, std::int64_t size_bytes)
        : original_(std::move(original)), size_bytes_(size_bytes) {}

    /// The copy; without one the original, if it lives. Whether that still is what it was tells the
    /// checksum of what is made of it.
    [[nodiscard]] c10::Storage storage() const;
    [[nodiscard]] c10::Storage original() const { return c10::Storage(original_.lock()); }
    [[nodiscard]] bool has_copy() const;
    /// There is a copy from now on. False: the original has gone, or has another size. Allocates.
    bool make_copy();
    /// The copy, which the caller ends.
    [[nodiscard]] c10::Storage let_go();

  private:
    c10::weak_intrusive_ptr<c10::StorageImpl> const original_;
    std::int64_t const size_bytes_;
    mutable Mutex mutex_;  ///< not held while torch allocates
    c10::Storage copy_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
