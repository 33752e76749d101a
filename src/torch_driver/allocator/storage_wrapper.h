// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Python's wrapper of a storage, which `tensor.untyped_storage()` makes: torch keeps it as long as
// anything else refers to the storage, so one look at an activation's storage would keep the
// activation on the device. And who lets go of the last other reference takes Python's lock, which
// nobody may while others wait for what he holds.
#pragma once

#include <c10/core/Storage.h>
#include <c10/core/StorageImpl.h>

#include <cstddef>
#include <mutex>
#include <vector>

namespace spillway {

/// How many references `storage` has beside a wrapper that no Python code has any more.
///
/// Thread  any; does not take Python's lock, so a wrapper that Python lets go of right now may
/// count
[[nodiscard]] std::size_t references_but_an_idle_wrapper(c10::StorageImpl const& storage);

/// Storages whose wrappers have to end under Python's lock, kept until a thread comes by that may
/// take it. Their bytes are free at once.
///
/// Thread  any
class WrappedStorages {
  public:
    WrappedStorages() = default;
    WrappedStorages(WrappedStorages const&) = delete;
    WrappedStorages& operator=(WrappedStorages const&) = delete;

    /// Lets go of `storage` without Python's lock.
    void let_go(c10::Storage storage);
    /// The wrappers end. May take Python's lock: for a thread that holds nothing of ours.
    void clear();

  private:
    std::mutex mutex_;
    std::vector<c10::Storage> waiting_;
};

}  // namespace spillway
