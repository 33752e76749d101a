// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A local search from plans to a better one, judged by the simulator. No paper: ours.
#pragma once

#include "policy/judged_plan.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

struct ImproveSettings {
    std::size_t tries = 0;      ///< plans that it simulates, at most
    std::int64_t least_ns = 0;  ///< it ends where a plan takes no more: none can take less
};

/// Note [How a plan is improved]
/// Hill climbing: a neighbour that is better becomes the plan. First whole plans: the moves of one
/// start with what another makes again; all moves without times, or with those that hide behind
/// compute. Then fates of the values that cost the most (waits for their copies, runs of their
/// recipes; then the largest first): each is to stay, to move, to be made again, or to be left to
/// `online`. At first a quarter of all values changes at once; where that is no better half as
/// many, down to one, and then the next one; where it is, twice as many. It ends after its tries,
/// never by a clock: the same request gives the same plan.
///
/// The best of `starts`, which are not empty, where none better is found.
[[nodiscard]] JudgedPlan improved(
    PlanRequest const& request,
    std::vector<JudgedPlan> const& starts,
    ImproveSettings const& settings
);

}  // namespace spillway
