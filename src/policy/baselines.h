// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Two plans to compare others with, of no paper.
#pragma once

#include "policy/planner.h"

namespace spillway {

/// Everything that can move does, as soon as it is stored.
[[nodiscard]] Result<Plan> plan_offload_all(PlanRequest const& request);

/// The largest first, until the step fits; without a look at links or times. So torch's partitioner
/// chooses what to offload (torch/_functorch/partitioners.py).
[[nodiscard]] Result<Plan> plan_largest_first(PlanRequest const& request);

}  // namespace spillway
