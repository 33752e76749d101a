// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Capuchin: swap what hides, then the cheaper of swap and recompute, by measured times (Xuan Peng
// et al., ASPLOS 2020, DOI 10.1145/3373376.3378505).
#pragma once

#include "policy/planner.h"

namespace spillway {

/// Note [Capuchin: what is the authors', what is ours]
/// Theirs, by reading notes: one measured step gives each tensor's accesses and times. Candidates
/// live where memory is fullest. Free time FT = (need - swap) - (last use + swap); in the order of
/// FT, while bytes are missing, those with FT > 0 are swapped. Of the rest the cheapest first: a
/// swap costs -FT, a recompute its time, sources that are made again included, and each choice
/// re-scores the others. A swap's return begins at the access before need - swap; a recompute's at
/// the need alone. What is swapped leaves when an allocation fails. Ours: a recompute is a recipe
/// of the trace, of operators as they ran; a use is a save. Not taken over: the feedback that moves
/// a late return's trigger by 5 % of its swap.
[[nodiscard]] Result<Plan> plan_capuchin(PlanRequest const& request);

}  // namespace spillway
