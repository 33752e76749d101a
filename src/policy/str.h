// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// STR: one program for what is swapped and what is recomputed, under the memory and the link's
// bandwidth (hybrid tensor re-generation, IEEE TPDS 2023, DOI 10.1109/TPDS.2023.3266110).
#pragma once

#include "policy/planner.h"

#include <vector>

namespace spillway {

/// Note [STR: what is the authors', what is ours]
/// Only the abstract was at hand. Theirs: a mixed-integer program of swaps and recomputes with
/// dependencies and explicit bounds on what crosses the link while the step computes; copies that
/// are in host memory are used again as what recomputes start from; recursive source tracing, which
/// is faster for a bounded loss; coarsened graphs. Their program was *reconstructed* on POET's:
/// the least time of recomputes, where a swap within the bandwidth costs nothing and the time of
/// recomputes counts as time of the link.
/// Ours: that program without POET's stages (step_program.h), solved with whole values up to 200,
/// else relaxed; the values that it makes again in part are rounded by the time of the step. Its
/// greedy form needs no solver: bytes that are swapped may be cut and go one by one, so that the
/// waits for the link are a closed form (link_time.h); what is made again is chosen among the
/// prefixes of the values in order of their time a byte, the one of the least time, less each value
/// without which the step takes no longer. Sources are traced: one that is made again or was
/// swapped is on the device from the first need of what is made of it. Of the rest, the fewest of
/// those away longest are swapped. The fastest of these plans, of swaps alone and of recomputes
/// alone, by simulation, is the plan, after single values were given other fates. Its bound is
/// step_bound.h's. Not taken over: several recomputes of one value.
///
/// Fails   Errc::out_of_memory: not even with all of them away
[[nodiscard]] Result<Plan> plan_str(PlanRequest const& request);

}  // namespace spillway
