// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Of scopes that are opened one inside another, the outermost alone counts.
#pragma once

#include "base/mutex.h"

#include <optional>
#include <utility>

namespace spillway {

/// A `Scope` that is open from the first beginning to its end.
///
/// Thread  any
template <typename Scope>
class OutermostScope {
  public:
    /// `arguments`: of the Scope, for the first. Where its constructor throws, nothing has begun.
    template <typename... Arguments>
    void begin(Arguments&&... arguments) {
        MutexLock const lock(mutex_);
        if (depth_ == 0) {
            open_.emplace(std::forward<Arguments>(arguments)...);
        }
        ++depth_;
    }
    void end() {
        MutexLock const lock(mutex_);
        if (depth_ > 0 && --depth_ == 0) {
            open_.reset();
        }
    }
    [[nodiscard]] int depth() {
        MutexLock const lock(mutex_);
        return depth_;
    }
    void end_all() {
        MutexLock const lock(mutex_);
        depth_ = 0;
        open_.reset();
    }

  private:
    Mutex mutex_;
    int depth_ SPILLWAY_GUARDED_BY(mutex_) = 0;
    std::optional<Scope> open_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
