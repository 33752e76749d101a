// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// SuperNeurons: what cheap layers made is made again, and of the rest the least recently used
// leaves when the budget is short (Linnan Wang et al., PPoPP 2018, arXiv:1801.04380).
#pragma once

#include "policy/planner.h"
#include "policy/step_view.h"

#include <cstdint>
#include <string_view>

namespace spillway {

/// The layer that made a value, as theirs are called.
enum class SuperneuronsLayer : std::uint8_t {
    convolution,  ///< CONV
    product,      ///< FC; here attention, too
    join,         ///< JOIN, CONCAT: sums and concatenations
    cheap,        ///< POOL, ACT, BN, LRN, DROPOUT: all that is not named above
};

/// By the producer of its slot: a node of torch's graph ("AddmmBackward0") or an operator
/// ("aten::addmm").
[[nodiscard]] SuperneuronsLayer superneurons_layer(std::string_view producer);

/// Theirs l_peak: what the largest layer saves for its backward, in bytes; 0: nothing is saved.
[[nodiscard]] std::int64_t superneurons_peak_bytes(StepView const& step);

/// Note [SuperNeurons: what is the authors', what is ours]
/// Theirs, by the abstract, reading notes and their released code: CONV, FC, JOIN, FORK and CONCAT
/// are checkpoints; what cheap layers between two checkpoints made (a segment) goes in forward, at
/// any budget, and is made again. A segment whose sum is at most l_peak is speed-centric: it is
/// made once and stays. Any other is memory-centric: made from its start for each layer, and
/// dropped again. Convolutions' outputs move, and only when an allocation fails, the least recently
/// used first; the backward of a convolution fetches what the one before needs. Ours
/// (reconstructed): a segment is what is connected by recipes of the trace, of operators as they
/// ran; a cheap layer without one is a checkpoint. Nothing here drops what a chain of recipes made
/// on its way, so a segment that would exceed l_peak is cut there: that value is a checkpoint, and
/// no more than l_peak is made at once. Gradients are no part of l_peak, since a trace does not
/// tell them from other temporaries. In a step without convolutions products and attention move;
/// where all of these are not enough, what else can. "Used" is by the forward: a value's last use
/// is where only the saved graph holds it. Liveness is torch's. Not taken over: the tensor pool
/// (the allocator is torch's) and the choice of a convolution's algorithm by the bytes that are
/// free.
[[nodiscard]] Result<Plan> plan_superneurons(PlanRequest const& request);

}  // namespace spillway
