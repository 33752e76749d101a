// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which values only the saved graph holds, so that dropping one gives its bytes back. Torch does
// not report when a reference to a storage goes, so values that are shared are checked again.
#pragma once

#include "base/ids.h"
#include "torch_driver/autograd/saved_values.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace spillway {

/// Thread  not thread-safe, but for `could_leave_bytes`: the mutex of SavedTensors guards it
class UnsharedTracker {
  public:
    /// `is_unshared`: whether a value on the device is unshared now. `values` outlives this.
    UnsharedTracker(SavedValues& values, std::function<bool(SavedValue const&)> is_unshared);

    /// A new value.
    void add(ValueId value);
    /// The value came back.
    void came_back(ValueId value) { unseen_.push_back(value); }
    /// Something else has the value now, or it is on the device no more.
    void is_in_use(ValueId value, SavedValue& entry);
    /// A tensor of the value was handed out: `newly_unshared` returns it again when that has gone.
    void handed_out(ValueId value);

    /// Values that are unshared and were not returned before, or were handed out since. Checks
    /// `at_most` candidates, and goes on from there at the next call.
    [[nodiscard]] std::vector<ValueId> newly_unshared(std::size_t at_most);

    /// Device bytes of unshared values, as far as was seen; `see_all` looks again.
    ///
    /// Thread  any
    [[nodiscard]] std::int64_t could_leave_bytes() const {
        return could_leave_bytes_.load(std::memory_order_relaxed);
    }
    void see_all();

  private:
    void can_leave(SavedValue& entry);
    void add_candidate(std::vector<ValueId>& candidates, ValueId value);

    SavedValues& values_;
    std::function<bool(SavedValue const&)> const is_unshared_;
    std::vector<ValueId> not_unshared_;  ///< candidates for `newly_unshared`, oldest first
    std::size_t next_candidate_ = 0;
    std::vector<ValueId> unseen_;  ///< of which is not known whether they could leave
    std::atomic<std::int64_t> could_leave_bytes_ = 0;
};

}  // namespace spillway
