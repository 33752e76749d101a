// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A plan: the fate of every value of a training step. It is advice: an empty plan is safe, and a
// value that it does not know is left to the `online` chooser. Text form: docs/formats/plan.md.
#pragma once

#include "base/place.h"
#include "trace/slot.h"

#include <cstdint>
#include <map>

namespace spillway {

/// What becomes of one value between its last use in forward and its first use in backward.
enum class FateKind : std::uint8_t {
    keep,  ///< stays on the device
    move,  ///< leaves for `pool` as soon as only the saved graph holds it; comes back before need
};

struct Fate {
    FateKind kind = FateKind::keep;
    Pool pool = Pool::nvme;  ///< where a moved value waits; host or nvme
    bool operator==(Fate const&) const = default;
};

struct Plan {
    std::int32_t version = 1;
    std::map<Slot, Fate> fates;
    std::int64_t predicted_step_ns = 0;  ///< 0: no prediction
    std::int64_t predicted_peak_bytes = 0;
    std::int64_t bound_step_ns = 0;  ///< proven lower bound; 0: none

    bool operator==(Plan const&) const = default;
};

}  // namespace spillway
