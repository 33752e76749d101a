// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A training step made of a forward pass: its backward, its memory and its times.
#pragma once

#include "base/result.h"
#include "trace/trace.h"
#include "workload/tape.h"

#include <cstdint>
#include <string>

namespace spillway {

/// What the operators of a step are priced with.
struct StepRates {
    double flop_per_s = 0;          ///< of products, as they reach it
    double memory_bytes_per_s = 0;  ///< of the device's memory, as they reach it
    std::int64_t parameter_bytes = 4;
    std::int64_t gradient_bytes = 4;
    std::int64_t optimizer_bytes = 8;  ///< of state, a parameter
};

/// Note [What a step made of formulas has]
/// An operator takes the longer of its products' time and its memory's; backward computes twice the
/// forward's products (or as the operator says) and reads what was saved beside what forward moved.
/// A value is saved where autograd saves its storage first, is unshared after the last operator
/// that reads it in forward, and dropped by the last one that needs it in backward. What the
/// program itself holds, its inputs, never becomes unshared. The floor is parameters and optimizer
/// state, gradients of parameters from where backward makes them to the update (`zero_grad` frees
/// them), tensors between their maker and their last reader that are no value, and their gradients
/// in backward. Workspaces of kernels are not in it. A value is made again by the shortest chain of
/// operators from saved values; parameters are no sources. What is random has no recipe, so that a
/// dropout is made again from its mask.
///
/// Fails   Errc::bad_argument: sizes or times too large for a trace
[[nodiscard]] Result<Trace> make_step(
    std::string const& name, Tape const& tape, StepRates const& rates
);

}  // namespace spillway
