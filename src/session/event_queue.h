// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Queued events on their way to the executor.
#pragma once

#include "base/mutex.h"
#include "executor/event.h"

#include <utility>
#include <vector>

namespace spillway {

/// Thread  any
class EventQueue {
  public:
    void push(Event event) {
        MutexLock const lock(mutex_);
        events_.push_back(std::move(event));
    }
    /// All of them, in order.
    [[nodiscard]] std::vector<Event> take() {
        MutexLock const lock(mutex_);
        return std::exchange(events_, {});
    }
    [[nodiscard]] bool empty() const {
        MutexLock const lock(mutex_);
        return events_.empty();
    }

  private:
    mutable Mutex mutex_;
    std::vector<Event> events_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
