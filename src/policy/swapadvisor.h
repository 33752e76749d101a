// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// SwapAdvisor: a genetic search for what leaves and where it waits, judged by the simulator
// (Chien-Chin Huang et al., ASPLOS 2020, DOI 10.1145/3373376.3378530).
#pragma once

#include "policy/genetic.h"
#include "policy/planner.h"

namespace spillway {

/// Note [SwapAdvisor: what is the authors', what is ours]
/// Theirs, by the abstract and reading notes: lists for the order of operators, for size classes
/// and for the blocks of each are crossed at one cut and mutated; a pool above the device's memory
/// is repaired; a planner makes the swaps of what the lists say (Belady: what is needed last
/// leaves; out right after the last use, in as early as a block is free); a simulator's time is the
/// fitness, and survivors are drawn by softmax over it, of parents and children. About 144 lists,
/// half an hour. Ours (reconstructed): operators run in torch's order and the allocator is torch's,
/// so the only list says of each value that can move whether it leaves and for which pool. Repair:
/// while the step would not fit with all moves done at once, values that stay leave in a random
/// order. Times are those of `place_transfers`. The best list always survives. The first lists:
/// nothing moves; the fewest that fit of the least recently used, of those needed last (Belady),
/// and of the largest; all. A pool takes what comes first up to its budget. Parameters `seed`,
/// `generations` and `population`; 0 of the last two: by the number of values that can move.
[[nodiscard]] Result<Plan> plan_swapadvisor(PlanRequest const& request);

/// The search itself: a gene for each value that can move, in their order; 0 stays, others are
/// the pools that have a budget, the host first.
///
/// Fails   as `forecast` does
[[nodiscard]] Result<GeneticResult> search_swaps(PlanRequest const& request);

}  // namespace spillway
