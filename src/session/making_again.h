// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a session may drop without a copy, and have made again by the operators that made it.
#pragma once

#include "base/session_options.h"
#include "policy/catalog.h"
#include "session/given_plan.h"

#include <cstdint>

namespace spillway {

enum class MakingAgain : std::uint8_t {
    nothing,
    cheap,   ///< what element-wise functions, norms and the like made
    blocks,  ///< what products, convolutions and attention made, too
};

/// As `options.recompute`, the policy and the places say. `by_plan`: the plan that the session is
/// given has values made again.
[[nodiscard]] MakingAgain making_again(
    SessionOptions const& options, Places const& places, bool by_plan
);

/// Under `recompute` "auto": whether values are made again that no plan names, since the policy
/// decides so at run time, or nothing can move.
[[nodiscard]] bool makes_again_unplanned(Policy const& policy, bool has_place);

}  // namespace spillway
