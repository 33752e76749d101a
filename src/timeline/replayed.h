// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What came of doing a recorded run again. Plain struct.
#pragma once

#include <cstdint>
#include <string>

namespace spillway {

struct Replayed {
    bool identical = false;     ///< the executor of this build gives the recorded commands
    std::string difference;     ///< the first, where it does not
    std::int64_t steps = 0;     ///< that the record begins
    std::int64_t events = 0;    ///< compared
    std::int64_t commands = 0;  ///< compared
    std::string refusal;        ///< why an allocation was refused, the last time; empty: never

    bool operator==(Replayed const&) const = default;
};

}  // namespace spillway
