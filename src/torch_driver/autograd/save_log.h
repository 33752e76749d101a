// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What autograd saved in the last forward, save by save, and where in the model: for people who ask
// why a tensor stayed or left.
#pragma once

#include "base/ids.h"
#include "session/history.h"
#include "torch_driver/autograd/saved_hook.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace spillway {

/// Whether a saved tensor may leave the device, and if not, why.
enum class Stay : std::uint8_t {
    may_leave,
    no_plain_tensor,  ///< sparse, a subclass, a wrapper of torch.func or a tracer
    other_device,
    small,
    long_for_tier,  ///< behind a GPU, with NVMe and no host budget
    foreign_block,  ///< its memory is not the session's: from before it, or a view of foreign
                    ///< memory
    owned,          ///< parameter, buffer, gradient, optimizer state
};

/// One tensor that a node saved.
struct Save {
    std::uint64_t node = 0;  ///< the node's sequence number
    Origin origin;
    ValueId value;  ///< where it may leave
    std::int64_t size_bytes = 0;
    Stay stay = Stay::may_leave;
    std::shared_ptr<std::string const> name = nullptr;  ///< of an owned tensor that has one
};

/// Thread  not thread-safe: the registry's mutex guards it
class SaveLog {
  public:
    void begin_pass() { saves_.clear(); }
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
    [[nodiscard]] std::vector<std::string> places() const;

    std::vector<Save> saves_;
};

}  // namespace spillway
