// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Where in a training program a value is saved: the same place in the next step has the same slot.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace spillway {

/// Names a saved value by what made it, never by an address or an operator number alone.
struct Slot {
    std::string producer;         ///< operator that made it; "input" if made outside the step
    std::int32_t output = 0;      ///< which output of that operator
    std::int32_t occurrence = 0;  ///< how many values with this producer and output came before
                                  ///< it since the pass began

    auto operator<=>(Slot const&) const = default;
};

}  // namespace spillway
