// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for solver.cc where the build has no CBC.
#include "policy/solver.h"

namespace spillway {

bool has_solver() {
    return false;
}

std::optional<ProgramSolution> solve_relaxed(LinearProgram const&, std::int64_t) {
    return std::nullopt;
}

std::optional<ProgramSolution> solve_whole(LinearProgram const&, std::int64_t) {
    return std::nullopt;
}

}  // namespace spillway
