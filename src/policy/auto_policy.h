// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Ours: of all policies' plans the quickest in simulation, then improved. No paper.
#pragma once

#include "policy/planner.h"

#include <cstddef>

namespace spillway {

struct Policy;

/// Larger steps are not given to policies whose search takes longer than all others together.
inline constexpr std::size_t kMostSearchedValues = 200;

/// Note [auto]
/// Every lossless policy of the catalogue that makes plans is asked under the same budgets; without
/// a pool only those that move nothing. With them compete a plan that keeps all and one that leaves
/// all to `online`. The simulator judges each: the time of a step, then its peak, then what moves.
/// The two best policies are asked again, under a little more and less memory. Then the three best
/// plans are improved (improve.h). All of it ends where a step takes no longer than the lower
/// bound (lower_bound.h), which is the plan's bound. So where it makes a plan none that another
/// policy makes is quicker in simulation, but for those it does not ask: `swapadvisor` above
/// `kMostSearchedValues` values; parameters other than the default ones. A
/// policy that chooses at run time by a rule of its own (`delta`) makes no plan: what it did in
/// simulation is one (observed_plan.h), whose time may be another.
/// `Plan::policy` is whose plan it was, "str" or "str, improved".
///
/// Parameter `tries`: plans that the improvement simulates.
/// Fails   Errc::out_of_memory: no plan fits, with what the program would be told under `online`
[[nodiscard]] Result<Plan> plan_auto(PlanRequest const& request);

/// Whether `plan_auto` asks it.
[[nodiscard]] bool auto_asks(Policy const& policy, PlanRequest const& request);

}  // namespace spillway
