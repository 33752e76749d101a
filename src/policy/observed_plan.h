// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a rule that chooses at run time does with a step, as a plan: for searches that begin there.
#pragma once

#include "base/eviction.h"
#include "policy/planner.h"

namespace spillway {

/// Simulates two steps under `online` with this rule of eviction. What the second one loads moves,
/// to where it was loaded from; what it makes again is to be made again; the rest stays. A plan
/// begins its stores as early as it can, so it may be quicker than the rule itself, or slower.
///
/// Fails   Errc::out_of_memory: the step does not fit so; as `simulate` does
[[nodiscard]] Result<Plan> observed_plan(PlanRequest const& request, EvictionRule rule);

}  // namespace spillway
