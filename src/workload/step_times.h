// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How long an operator of a tape takes.
#pragma once

#include "workload/step.h"
#include "workload/tape.h"

#include <cstddef>
#include <cstdint>

namespace spillway {

/// The longer of the products' time and the memory's, at least 1.
[[nodiscard]] std::int64_t time_ns(double flop, double moved_bytes, StepRates const& rates);

/// `at`: a place in `Tape::operators`.
[[nodiscard]] std::int64_t forward_ns(Tape const& tape, std::size_t at, StepRates const& rates);
[[nodiscard]] std::int64_t backward_ns(Tape const& tape, std::size_t at, StepRates const& rates);

}  // namespace spillway
