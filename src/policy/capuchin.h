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
/// swap costs what is not hidden of it, a recompute its time, sources that are made again included,
/// and each choice re-scores the others. A swap's return begins at the access before need - swap,
/// or earlier since transfers queue on an exclusive lane; a recompute's at the need alone. What is
/// swapped leaves when an allocation fails. Feedback: if compute waits for a return, the access
/// that begins it moves earlier by 5 % of its swap time.
/// Reconstructed: that the lane is a queue when swaps are chosen, too (parameter `queue`; 0: as if
/// each had the link for itself): together they hide if their stores end before the step is fullest
/// and their loads begin after it. The cheapest is so by the byte. The feedback counts from the
/// access where it is now, to the last that is so much earlier; if there is none, it stays.
/// Ours: a recompute is a recipe of the trace, of operators as they ran; a use is a save.
/// Not taken over: that no return begins while the device is fullest; the executor looks for room.
[[nodiscard]] Result<Plan> plan_capuchin(PlanRequest const& request);

}  // namespace spillway
