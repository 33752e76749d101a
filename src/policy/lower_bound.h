// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A time that no plan of a step goes below, whatever it moves and makes again.
#pragma once

#include "policy/planner.h"

#include <cstdint>

namespace spillway {

/// Note [The lower bound]
/// Take a point p of the step. Let B be the device budget, C(p) the compute of the points before p,
/// D(p) that of p and of all after it.
/// 1. While p computes, its floor and every live value that is not away are on the device. So at
///    least E = floor + live - B bytes are away, all of them of values that became unshared before
///    p and that p neither saves nor needs.
/// 2. Each of these either has a copy (M bytes in all) or goes by its recipe (R bytes): M + R >= E.
///    M is at most what the pools hold.
/// 3. Device bytes come free when their store has ended, and no value is stored before it is saved.
///    So p begins no earlier than M / out after the first save of those that may be away; nor
///    before C(p).
/// 4. A value that is away when p begins to compute and is needed later is loaded after that, or
///    made again on the lane that computes, for at least its recipe's own time. Loads end before
///    the last of those values is needed: from p's begin the step takes no less than M / in and
///    what is computed from that need on; and no less than D(p) and the recipes' time. The least
///    time for R bytes, if values may be cut, is the cheapest a byte first (a fractional knapsack).
/// So the step takes no less than the least, over M, of
///    max(C(p), first save + M / out) + max(D(p) + recipes(E - M), M / in + after the last need),
/// and no less than the highest of these over all p. Rates are those of an idle way back, all pools
/// at once; latencies, shared links, interference, transients and a recipe's sources that are away,
/// too, only add to that. Values that are never needed again return for nothing.
///
/// Nanoseconds; at least the step's compute. Where there is no device budget, that. `request` is
/// valid.
[[nodiscard]] std::int64_t lower_bound_ns(PlanRequest const& request);

}  // namespace spillway
