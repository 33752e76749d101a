// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Transformer Engine's CPU offloading (NVIDIA, TransformerEngine, cpu_offload; no paper): the first
// N of L layers leave, at fixed points of the others.
#pragma once

#include "policy/planner.h"

namespace spillway {

/// Note [Transformer Engine: what is theirs, what is ours]
/// Theirs: layer i < N is copied out while layer i + 1 computes; its device bytes go where layer
/// L - N + i begins, which waits for the copies; it returns where the backward of layer L - 1 - N +
/// i begins. So at most L - N sets are on the device. N is at most L - 1, and L - 2 is the most
/// that overlaps. Ours: a layer is a unit of the trace (trace/units.h); a value's store starts
/// where only the saved graph holds it, which is where their layer ends or before; all of a layer
/// that can move does, and goes at the last save before the layer that makes it go; theirs takes
/// contiguous tensors of 256 Ki elements and more (the session's own floor decides instead).
///
/// Parameters  layers: N; 0: L - 2
/// Fails       Errc::unsupported: fewer than three units; Errc::bad_argument: N above L - 1
[[nodiscard]] Result<Plan> plan_te(PlanRequest const& request);

}  // namespace spillway
