// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How a session plans for itself: the machine that it runs on, measured when it opens, and its
// policy, asked when a step has been recorded.
#pragma once

#include "base/result.h"
#include "machine/machine.h"
#include "memory/device.h"
#include "plan/plan.h"
#include "policy/planner.h"
#include "tier/tier.h"
#include "trace/trace.h"

#include <cstdint>

namespace spillway {

/// Tiers with the capacities of a session's budgets, and links as fast as they are here and now.
/// Tiers may be null. Takes some tenths of a second for each.
///
/// Order   nothing uses device and tiers yet
/// Fails   the tiers' errors (measure_tier, measure_copies)
[[nodiscard]] Result<Machine> machine_here(Device& device, Tier* host, Tier* nvme);

/// The same with the rates of the CPU's memory and of the codec that QPO has for most bytes, for a
/// machine that is to be read later. Of a GPU both stay unknown.
[[nodiscard]] Result<Machine> probed_machine(Device& device, Tier* host, Tier* nvme);

/// Makes the plan of `choice` for any trace, on that machine, under its capacities. `face`: whose
/// names of options an error uses.
[[nodiscard]] Planner planner_of(PolicyChoice choice, Machine machine, Face face);

}  // namespace spillway
