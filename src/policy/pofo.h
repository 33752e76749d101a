// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// POFO: Olivier Beaumont et al., "Efficient Combination of Rematerialization and Offloading for
// Training DNNs", NeurIPS 2021. A dynamic program over a chain of stages under a memory limit, each
// of which is kept, offloaded, or made again in a segment whose input stays or is offloaded. Two
// numbers stand for the link's queues: bytes that still have to leave, and bytes that backward
// still has to fetch; what does not hide is idle time.
//
// Differs: what a segment makes again stays until its backward (see rotor.h). Reconstructed:
// stages are the trace's units; what stands for a stage's stored object is all that it saves; the
// fetch of a segment's time is its backward with what it makes again.
#pragma once

#include "policy/planner.h"
#include "policy/stages.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace spillway {

struct PofoProblem {
    std::vector<Stage> const& stages;
    std::int64_t room_bytes = 0;     ///< that stages may hold at once
    std::int64_t segment_bytes = 0;  ///< of a segment no more is made again at once
    double rate = 0;                 ///< bytes a second, each way; 0: nothing can be offloaded
    std::int64_t slots = 0;          ///< that room is cut into, at most
    bool rounds_up = true;           ///< each stage to slots; else sums over stages in a row
};

struct PofoAnswer {
    std::vector<StageFate> fates;
    double extra_ns = 0;  ///< made again, and idle, as the model has it

    bool operator==(PofoAnswer const&) const = default;
};

/// The fates that cost the least extra time. None: no fates fit.
[[nodiscard]] std::optional<PofoAnswer> pofo_fates(PofoProblem const& problem);

/// Ours: of that, with slots rounded either way, and of rotor's plan the one that is simulated
/// fastest.
///
/// Fails   as stages_with_recipes
[[nodiscard]] Result<Plan> plan_pofo(PlanRequest const& request);

}  // namespace spillway
