// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The error of an allocation that the budget has no room for.
#pragma once

#include "base/option.h"
#include "base/refusal.h"
#include "memory/device.h"

#include <string>

namespace spillway {

struct RefusedAllocation {
    std::string place;     ///< "step 3, forward"
    std::string why;       ///< who asked for how much, and why no room can be made
    std::string estimate;  ///< StepEstimate::Whole::words
    Face face = Face::cpp;
    bool caps_from_open = true;
    bool is_left = false;  ///< the session was left; it caps what it recorded
    Refusal refusal{};
};

/// Throws  OutOfBudget. For users of a library its words have what torch's own has on such a
///         device, which programs that look for a batch size that fits look for
[[noreturn]] void raise_out_of_memory(RefusedAllocation refused, Device const& device);

}  // namespace spillway
