// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/making_again.h"

namespace spillway {

MakingAgain making_again(SessionOptions const& options, Places const& places, bool by_plan) {
    Policy const* const policy = find_policy(options.policy);  // null: a plan was given in C++
    bool const moves_nothing = policy != nullptr && !policy->moves && !policy->recomputes;
    if (options.recompute == "off" || options.device_budget_bytes <= 0 || moves_nothing) {
        return MakingAgain::nothing;
    }
    bool const has_place = places.host || places.nvme;
    if (by_plan || !has_place || (policy != nullptr && policy->recomputes)) {
        return MakingAgain::blocks;
    }
    return options.recompute == "on" ? MakingAgain::cheap : MakingAgain::nothing;
}

bool makes_again_unplanned(Policy const& policy, bool has_place) {
    return !has_place || (policy.recomputes && !policy.plans_in_session());
}

}  // namespace spillway
