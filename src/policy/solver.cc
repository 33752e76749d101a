// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The only file that includes CBC's headers (https://github.com/coin-or/Cbc, EPL-2.0).
#include "policy/solver.h"

#include <CbcHeuristicDiveCoefficient.hpp>
#include <CbcModel.hpp>
#include <CglGomory.hpp>
#include <CglMixedIntegerRounding2.hpp>
#include <CglPreProcess.hpp>
#include <ClpSimplex.hpp>
#include <CoinPackedMatrix.hpp>
#include <OsiClpSolverInterface.hpp>

#include <algorithm>
#include <limits>
#include <map>

namespace spillway {

namespace {

/// A solution within this share of the best is good enough: a choice.
constexpr double kEnough = 5e-4;

/// To CBC: a generator of cuts is asked before it branches, never after.
constexpr int kAtTheRoot = -99;
constexpr int kCutPasses = 4;

int narrow(std::int64_t count) {
    return static_cast<int>(std::min<std::int64_t>(count, std::numeric_limits<int>::max()));
}

/// A program as CLP takes it.
struct ClpForm {
    explicit ClpForm(LinearProgram const& program) {
        std::vector<int> rows;
        std::vector<int> columns;
        std::vector<double> factors;
        for (std::size_t i = 0; i < program.rows.size(); ++i) {
            row_lower.push_back(program.rows[i].lower);
            row_upper.push_back(program.rows[i].upper);
            std::map<std::size_t, double> sums;
            for (ProgramEntry const& entry : program.rows[i].entries) {
                sums[entry.column] += entry.factor;
            }
            for (auto const& [column, factor] : sums) {
                rows.push_back(static_cast<int>(i));
                columns.push_back(static_cast<int>(column));
                factors.push_back(factor);
            }
        }
        for (ProgramColumn const& column : program.columns) {
            lower.push_back(column.lower);
            upper.push_back(column.upper);
            cost.push_back(column.cost);
        }
        matrix = CoinPackedMatrix(
            true,
            rows.data(),
            columns.data(),
            factors.data(),
            static_cast<CoinBigIndex>(factors.size())
        );
        matrix.setDimensions(narrow(std::ssize(program.rows)), narrow(std::ssize(program.columns)));
    }

    template <typename Solver>
    void load(Solver& solver) const {
        solver.loadProblem(
            matrix, lower.data(), upper.data(), cost.data(), row_lower.data(), row_upper.data()
        );
    }

    CoinPackedMatrix matrix;
    std::vector<double> lower;
    std::vector<double> upper;
    std::vector<double> cost;
    std::vector<double> row_lower;
    std::vector<double> row_upper;
};

}  // namespace

bool has_solver() {
    return true;
}

std::optional<ProgramSolution> solve_relaxed(
    LinearProgram const& program, std::int64_t most_iterations
) {
    ClpSimplex clp;
    clp.setLogLevel(0);
    clp.setMaximumIterations(narrow(most_iterations));
    ClpForm(program).load(clp);
    clp.initialSolve();
    if (clp.status() != 0) {
        return std::nullopt;
    }
    std::vector<double> const prices(
        clp.dualRowSolution(), clp.dualRowSolution() + clp.numberRows()
    );
    return ProgramSolution{
        .cost = clp.objectiveValue(),
        .columns = {clp.primalColumnSolution(), clp.primalColumnSolution() + clp.numberColumns()},
        .bound = bound_by_prices(program, prices)};
}

std::optional<ProgramSolution> solve_whole(LinearProgram const& program, std::int64_t most_nodes) {
    OsiClpSolverInterface clp;
    clp.messageHandler()->setLogLevel(0);
    ClpForm(program).load(clp);
    for (std::size_t i = 0; i < program.columns.size(); ++i) {
        if (program.columns[i].is_whole) {
            clp.setInteger(static_cast<int>(i));
        }
    }
    clp.initialSolve();
    CglPreProcess smaller;
    smaller.messageHandler()->setLogLevel(0);
    OsiSolverInterface* const small = smaller.preProcess(clp);
    if (!clp.isProvenOptimal() || small == nullptr) {
        return std::nullopt;
    }
    small->resolve();
    CbcModel cbc(*small);
    cbc.setLogLevel(0);
    cbc.solver()->messageHandler()->setLogLevel(0);
    cbc.setMaximumNodes(narrow(most_nodes));
    cbc.setAllowableFractionGap(kEnough);
    CglGomory gomory;
    CglMixedIntegerRounding2 rounding;
    cbc.setMaximumCutPassesAtRoot(kCutPasses);
    cbc.addCutGenerator(&gomory, kAtTheRoot, "gomory");
    cbc.addCutGenerator(&rounding, kAtTheRoot, "rounding");
    CbcHeuristicDiveCoefficient dive(cbc);
    cbc.addHeuristic(&dive);
    cbc.branchAndBound();
    if (cbc.bestSolution() == nullptr) {
        return std::nullopt;
    }
    double const cost = cbc.getObjValue();
    double const bound = std::min(cost, cbc.getBestPossibleObjValue());
    smaller.postProcess(*cbc.solver());
    double const* const columns = clp.getColSolution();
    return ProgramSolution{
        .cost = cost, .columns = {columns, columns + program.columns.size()}, .bound = bound};
}

}  // namespace spillway
