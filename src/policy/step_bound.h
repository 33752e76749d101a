// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A lower bound of the time of a step: no plan under these budgets is faster on this machine.
#pragma once

#include "policy/planner.h"

#include <cstdint>

namespace spillway {

/// The relaxed program of the step (step_program.h), by its dual prices: values may be cut, copies
/// have no latency, recipes need no sources, and pools are filled side by side. What the step
/// computes where nothing has to leave, where the build has no solver, or the program is too large.
[[nodiscard]] std::int64_t step_bound_ns(PlanRequest const& request);

}  // namespace spillway
