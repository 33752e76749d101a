// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The slot of an optimizer's state while it waits between two steps. It lives across steps, so no
// trace has it and no plan names it: it leaves as `online` has it.
#pragma once

#include "trace/slot.h"

namespace spillway {

inline constexpr char const* kOptimizerState = "optimizer state";

[[nodiscard]] inline bool is_of_optimizer(Slot const& slot) {
    return slot.producer == kOptimizerState;
}

}  // namespace spillway
