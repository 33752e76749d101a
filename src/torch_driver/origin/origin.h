// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Where in a program a tensor is made, as its saves are known by.
#pragma once

#include "trace/slot.h"

#include <cstdint>
#include <map>
#include <string>
#include <typeinfo>
#include <utility>

namespace spillway {

/// Which node made a tensor, for messages and slots: names are made only when asked for, because
/// that costs more than all the rest.
struct Origin {
    std::type_info const* node = nullptr;  ///< null: made outside the graph
    std::uint32_t output = 0;
    std::uint64_t number = 0;  ///< the node's sequence number, which is its thread's
    std::uint64_t thread = 0;  ///< that made the node, as Node::thread_id() has it

    /// "AddmmBackward0", or "input".
    [[nodiscard]] std::string name() const;
    /// "output of addmm (AddmmBackward0)", or "made outside the graph".
    [[nodiscard]] std::string words() const;
};

/// Numbers what one output of one kind of node saves, in a pass.
///
/// Thread  not thread-safe
class SlotCounter {
  public:
    /// The slot of the next value with this origin.
    [[nodiscard]] Slot next(Origin const& origin);
    /// A forward begins: slots are counted afresh.
    void begin_pass();

  private:
    struct Producer {
        std::string name;
        std::int32_t saved = 0;  ///< values since the pass began
    };
    std::map<std::pair<std::type_info const*, std::uint32_t>, Producer> producers_;
};

}  // namespace spillway
