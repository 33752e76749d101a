// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What compute waited for values to return, by value, while somebody asks for it: waits of the
// host, and those of a device's streams, which are only known when the device comes by.
#pragma once

#include "base/ids.h"

#include <cstdint>
#include <map>
#include <unordered_map>

namespace spillway {

/// Thread  not thread-safe; the accounting's mutex guards it
class WaitsForReturns {
  public:
    /// From now on, or no more; what was kept is forgotten.
    void keep(bool keep);
    /// A load or decode of the value was given.
    void begins(CommandId command, ValueId value);
    void waited(ValueId value, std::int64_t waited_ns);
    /// A stream waited for a command that may be of the step before: a program runs ahead of its
    /// device. Nothing where it is no return.
    void waited(CommandId command, std::int64_t waited_ns);
    /// What is known of the step, which ends here.
    [[nodiscard]] std::map<ValueId, std::int64_t> take();

  private:
    bool keeps_ = false;
    std::map<ValueId, std::int64_t> waits_ns_;
    std::unordered_map<CommandId, ValueId> returns_;         ///< of this step
    std::unordered_map<CommandId, ValueId> returns_before_;  ///< of the one before
};

}  // namespace spillway
