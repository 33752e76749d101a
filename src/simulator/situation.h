// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the program of a simulated run is doing, as far as the carrying out of commands depends on
// it.
#pragma once

#include "base/ids.h"

#include <algorithm>
#include <cstdint>

namespace spillway {

/// Device bytes that no chooser controls.
struct SimulatedFloor {
    std::int64_t now_bytes = 0;
    std::int64_t highest_bytes = 0;       ///< in this step, as reported to the executor
    std::int64_t last_highest_bytes = 0;  ///< in the step before

    /// How far it may rise to be as high again as it has been.
    [[nodiscard]] std::int64_t may_rise_bytes() const {
        std::int64_t const highest = std::max(highest_bytes, last_highest_bytes);
        return std::max<std::int64_t>(0, highest - now_bytes);
    }
};

struct Situation {
    SimulatedFloor floor;
    ValueId needed{};  ///< answered now, or the last that was
    bool answering_need = false;
    bool making_room = false;  ///< a need, short or write is answered now
};

}  // namespace spillway
