// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Checkpointing: Tianqi Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016,
// arXiv:1604.06174. Of a chain of n layers the inputs of every k-th stay, and backward makes the
// segment between two of them again: n/k + k layers' bytes at most, least at k = sqrt(n), for one
// more forward.
//
// Here the layers are the units of the trace, and a segment is made again value by value, by their
// recipes. Reconstructed: what a layer saves without a recipe stays.
#pragma once

#include "policy/planner.h"

namespace spillway {

/// k = 1: each unit's input stays, as with torch.utils.checkpoint around every block.
///
/// Fails   as stages_with_recipes
[[nodiscard]] Result<Plan> plan_recompute_all(PlanRequest const& request);

/// Parameter `every`: k; 0: the square root of the number of units, rounded up.
///
/// Fails   as stages_with_recipes
[[nodiscard]] Result<Plan> plan_sqrt_checkpoint(PlanRequest const& request);

}  // namespace spillway
