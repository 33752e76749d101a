// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The linear program of a step under a device budget: how much of each value moves and how much is
// made again, so that the step waits least. Solved as it is, no plan is faster than it; with whole
// values it is STR's program.
#pragma once

#include "policy/solver.h"
#include "policy/step_view.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace spillway {

/// Note [The program of a step]
/// A step is cut at *nodes*: where a point begins or ends whose bytes exceed the budget, where one
/// needs something back, and where a value becomes free to leave. Before each node the program may
/// wait. What moves crosses the link as a fluid, the first that is free first, so that of all
/// values together only two curves count: bytes out, which have to exist, and bytes in, which have
/// to be back in time (Beaumont et al. 2020; POFO, NeurIPS 2021). Recomputes take time of the step
/// before they are needed, in which the link goes on. At each node what is away covers what is too
/// much. All of this a real step obeys, whatever moves, as long as it moves at most at these rates;
/// so the least time is a lower bound of all plans. Where a step has more nodes than asked for,
/// neighbours are one: with all of their time before them, the excess of the highest, and what any
/// of them lets leave or return counted in favour of the step.
/// With whole values, a source that is made again or moved is back when the first value is made of
/// it, and stays (recursive source tracing, STR): so the program's time is one that a plan may
/// have.
struct StepTerms {
    std::int64_t device_bytes = 0;  ///< above 0
    double out_rate = 0;            ///< bytes a second; nothing moves where one of them is 0
    double in_rate = 0;
    std::int64_t capacity_bytes = 0;  ///< where what moves waits
    bool is_whole = false;            ///< values move or are made again as a whole, or stay
    std::size_t most_nodes = 400;
};

struct StepProgram {
    LinearProgram program{};
    bool has_to_leave = false;  ///< else all can stay, and the program's answer is the compute
    double unit_ns = 1;         ///< what a cost of 1 is in time
    /// Columns by value, which are shares of it: none: it cannot.
    std::vector<std::optional<std::size_t>> moved{};
    std::vector<std::optional<std::size_t>> remade{};
};

[[nodiscard]] StepProgram step_program(StepView const& step, StepTerms const& terms);

}  // namespace spillway
