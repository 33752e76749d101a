// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Optimal offloading of a chain (Olivier Beaumont, Lionel Eyraud-Dubois, Alena Shilova, Euro-Par
// 2020, hal-02316266).
#pragma once

#include "policy/planner.h"

#include <cstdint>
#include <optional>

namespace spillway {

/// Note [Optimal offloading: what is the authors', what is ours]
/// Only the abstract was at hand. Theirs: on a chain, which activations leave and when both ways'
/// transfers run is NP-hard; two heuristics, each on a relaxation. Ours: the relaxation in which a
/// tensor may be cut and is released byte by byte; there the oldest bytes leave first, and the time
/// is a closed form (optimal_offload_bound), which becomes the plan's bound. Whole tensors: the
/// fewest of the oldest that fit, and the fewest of those with the longest way between save and
/// need a byte; each returns just in time, or as early as there is room, which is better where
/// backward waits for the link; the fastest of the four by simulation. With budgets for two pools
/// there is no bound.
[[nodiscard]] Result<Plan> plan_optimal_offload(PlanRequest const& request);

/// The least time of a step under `device_bytes` with these rates, whatever moves; none: the step
/// is no chain (backward does not need last what was saved first), so the form does not hold.
[[nodiscard]] std::optional<std::int64_t> optimal_offload_bound(
    Trace const& trace, std::int64_t device_bytes, double out_rate, double in_rate
);

}  // namespace spillway
