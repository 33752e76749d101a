// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Saves that were not reported to the executor yet. While the device is less than half full and
// nothing is away there is nothing to decide, so saves only queue here; most are dropped before
// they have to be reported.
#pragma once

#include "base/ids.h"
#include "session/saved_as.h"
#include "trace/slot.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace spillway {

/// Thread  not thread-safe: the loop's mutex guards it
class Backlog {
  public:
    struct Save {
        ValueId value;
        std::int64_t size_bytes = 0;
        Slot slot;
        SavedAs as;
        bool dropped = false;
    };

    void add(ValueId value, std::int64_t size_bytes, Slot slot, SavedAs const& as = {});
    /// The value leaves as it is. Whether a lossy codec was to encode it; nothing: it is not here
    /// with a codec.
    std::optional<bool> goes_raw(ValueId value);
    /// True: the value was here, and will never be reported.
    bool drop(ValueId value);
    /// Hands over what is left, by value, and is empty afterwards.
    [[nodiscard]] std::vector<Save> take();
    [[nodiscard]] bool empty() const { return live_ == 0; }
    /// Saves in memory, dropped ones that wait to be cleared away included.
    [[nodiscard]] std::int64_t kept() const { return std::ssize(saves_); }
    [[nodiscard]] std::int64_t size_bytes() const { return size_bytes_; }

  private:
    std::vector<Save> saves_;  ///< by value
    std::int64_t live_ = 0;
    std::int64_t size_bytes_ = 0;
};

}  // namespace spillway
