// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// vDNN: layer by layer to the host and back (Minsoo Rhu et al., MICRO 2016, arXiv:1602.08124).
#pragma once

#include "policy/planner.h"

namespace spillway {

/// Note [vDNN: what is the authors', what is ours]
/// Theirs (paper, and two re-implementations by others): the input of a layer leaves while the
/// layer computes, compute and copy are synchronised at the layer's end, and it is freed there; in
/// backward the input of the next offloaded layer is fetched while a layer computes, one at a time.
/// The last layer keeps its own. `all` does so with every layer, `conv` with convolutions, whose
/// kernels are long enough to hide the copy. `dyn` tries, in this order, none, conv and all with
/// the fastest convolution algorithms, and takes the first that fits in a dry run of the allocator.
/// Ours: a layer's input is a value that the trace shows as saved; its store starts where only the
/// saved graph holds it, one layer later than theirs, and it is freed where the layer after that
/// saves; none and conv fit where the simulator's peak without a limit does; all is what is left,
/// and stores that lag are waited for, as theirs are at the end of each layer. Torch hides cuDNN's
/// algorithms and workspaces, so the variants (m) and (p) and the greedy ones do not exist here.
///
/// Fails   Errc::unsupported: `conv` of a step without convolutions
[[nodiscard]] Result<Plan> plan_vdnn_all(PlanRequest const& request);
[[nodiscard]] Result<Plan> plan_vdnn_conv(PlanRequest const& request);
[[nodiscard]] Result<Plan> plan_vdnn_dyn(PlanRequest const& request);

}  // namespace spillway
