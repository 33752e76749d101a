// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Linear programs, some of whose columns may be whole numbers, and the one place that asks a solver
// for them: CBC and CLP, where the build found them. The answer depends on the program alone: work
// is limited by counts, never by time, on one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace spillway {

inline constexpr double kUnlimited = std::numeric_limits<double>::infinity();

struct ProgramColumn {
    double cost = 0;
    double lower = 0;
    double upper = kUnlimited;
    bool is_whole = false;
};

struct ProgramEntry {
    std::size_t column = 0;
    double factor = 0;
};

/// `lower` <= the sum of its entries <= `upper`; a column that it has twice counts with the sum.
struct ProgramRow {
    double lower = -kUnlimited;
    double upper = kUnlimited;
    std::vector<ProgramEntry> entries{};
};

/// Find the columns of the least cost.
struct LinearProgram {
    std::vector<ProgramColumn> columns{};
    std::vector<ProgramRow> rows{};

    std::size_t add(ProgramColumn column);  ///< its place
    void add(ProgramRow row);
};

struct ProgramSolution {
    double cost = 0;
    std::vector<double> columns{};
    /// No solution costs less. Of a relaxed program it is computed from the dual prices, whatever
    /// the solver claims; a column without limits that has a price below 0 makes it minus infinity.
    double bound = -kUnlimited;
};

/// Whether the build has a solver; without one there is no solution of anything.
[[nodiscard]] bool has_solver();

/// As if no column had to be whole. None: there is no solution, or none within so many iterations.
[[nodiscard]] std::optional<ProgramSolution> solve_relaxed(
    LinearProgram const& program, std::int64_t most_iterations
);

/// The best that was found within `most_nodes` nodes of branching, to a two-thousandth of its cost
/// if these are enough. None: no solution, or none was found.
[[nodiscard]] std::optional<ProgramSolution> solve_whole(
    LinearProgram const& program, std::int64_t most_nodes
);

/// What no solution costs less than, by these prices of the rows, which may be any.
[[nodiscard]] double bound_by_prices(
    LinearProgram const& program, std::vector<double> const& prices
);

}  // namespace spillway
