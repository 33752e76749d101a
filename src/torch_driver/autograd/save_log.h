// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What autograd saved in the last forward, save by save, and where in the model: for people who ask
// why a tensor stayed or left.
#pragma once

#include "base/ids.h"
#include "session/history.h"
#include "torch_driver/autograd/eligibility.h"
#include "torch_driver/autograd/origin.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace spillway {

/// One tensor that a node saved.
struct Save {
    std::uint64_t node = 0;  ///< the node's sequence number
    Origin origin;
    ValueId value;  ///< where it may leave
    std::int64_t size_bytes = 0;
    Stay stay = Stay::may_leave;
    std::shared_ptr<std::string const> name = nullptr;  ///< of an owned tensor that has one
};

/// Thread  any; one mutex, and nothing else is called under it
class SaveLog {
  public:
    /// Saves are kept from now on.
    void keep() { is_kept_ = true; }
    [[nodiscard]] bool is_kept() const { return is_kept_; }

    void begin_pass();
    /// Forgets the oldest where one forward has some hundred thousand, as in a session that is
    /// entered for a whole training and never told of a step.
    void add(Save const& save);

    /// A table of the saves whose place begins with `module` (empty: all), then their sum. A place
    /// is the module whose parameters the same node saved, else what the parameters before and
    /// after it have in common: no hook runs in the model for it.
    [[nodiscard]] std::string explain(
        std::string const& module, std::map<ValueId, History> const& histories
    ) const;

  private:
    std::atomic<bool> is_kept_ = false;
    mutable std::mutex mutex_;
    std::vector<Save> saves_;  ///< the mutex guards it
};

}  // namespace spillway
