// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/solver.h"

#include <utility>

namespace spillway {

std::size_t LinearProgram::add(ProgramColumn column) {
    columns.push_back(column);
    return columns.size() - 1;
}

void LinearProgram::add(ProgramRow row) {
    rows.push_back(std::move(row));
}

double bound_by_prices(LinearProgram const& program, std::vector<double> const& prices) {
    double bound = 0;
    std::vector<double> costs;
    costs.reserve(program.columns.size());
    for (ProgramColumn const& column : program.columns) {
        costs.push_back(column.cost);
    }
    for (std::size_t i = 0; i < program.rows.size(); ++i) {
        ProgramRow const& row = program.rows[i];
        double const limit = prices[i] > 0 ? row.lower : row.upper;
        if (prices[i] == 0 || limit == kUnlimited || limit == -kUnlimited) {
            continue;  // no price is a price, too
        }
        bound += prices[i] * limit;
        for (ProgramEntry const& entry : row.entries) {
            costs[entry.column] -= prices[i] * entry.factor;
        }
    }
    for (std::size_t i = 0; i < costs.size(); ++i) {
        ProgramColumn const& column = program.columns[i];
        bound += costs[i] == 0 ? 0 : costs[i] * (costs[i] > 0 ? column.lower : column.upper);
    }
    return bound;
}

}  // namespace spillway
