// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Queued events on their way to the executor.
#pragma once

#include "executor/event.h"

#include <mutex>
#include <utility>
#include <vector>

namespace spillway {

/// Thread  any
class EventQueue {
  public:
    void push(Event event) {
        std::lock_guard const lock(mutex_);
        events_.push_back(std::move(event));
    }
    /// All of them, in order.
    [[nodiscard]] std::vector<Event> take() {
        std::lock_guard const lock(mutex_);
        return std::exchange(events_, {});
    }
    [[nodiscard]] bool empty() const {
        std::lock_guard const lock(mutex_);
        return events_.empty();
    }

  private:
    mutable std::mutex mutex_;
    std::vector<Event> events_;
};

}  // namespace spillway
