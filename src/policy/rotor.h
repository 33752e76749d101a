// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// rotor: Olivier Beaumont et al., "Optimal Re-Materialization Strategies for Heterogeneous Chains",
// ACM TOMS 2024, arXiv:1911.13214. A dynamic program over a chain of stages under a memory limit:
// each stage records its tape, or is run without it from a checkpointed input, and is made again in
// backward.
//
// Differs: what a segment makes again stays until its backward, so no forward runs a third time
// (theirs may checkpoint again inside a segment, which costs more time and takes less memory).
// Reconstructed: stages are the trace's units; what a stage saves without a recipe stays.
#pragma once

#include "policy/planner.h"
#include "policy/stages.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace spillway {

/// Under `room_bytes`, which are cut into at most `slots`, the fates that cost the
/// least time; of a segment no more than `segment_bytes` is made again at once. None: no fates fit.
[[nodiscard]] std::optional<std::vector<StageFate>> rotor_fates(
    std::vector<Stage> const& stages,
    std::int64_t room_bytes,
    std::int64_t segment_bytes,
    std::int64_t slots
);

/// What stages hold at most with these fates, and what is made again takes: as the model has it.
struct ChainCosts {
    std::int64_t peak_bytes = 0;
    std::int64_t recompute_ns = 0;

    bool operator==(ChainCosts const&) const = default;
};
[[nodiscard]] ChainCosts chain_costs(
    std::vector<Stage> const& stages, std::vector<StageFate> const& fates
);

/// Fails   as stages_with_recipes
[[nodiscard]] Result<Plan> plan_rotor(PlanRequest const& request);

}  // namespace spillway
