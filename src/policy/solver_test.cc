// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/solver.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>

namespace spillway {
namespace {

constexpr std::int64_t kMany = 100000;

/// Three things of values 6, 5, 4 and weights 5, 4, 3, of which at most 7 can be carried.
LinearProgram knapsack() {
    LinearProgram program;
    ProgramRow weight{.upper = 7};
    for (auto const& [value, weighs] : {std::pair(6.0, 5.0), {5.0, 4.0}, {4.0, 3.0}}) {
        std::size_t const at = program.add({.cost = -value, .upper = 1, .is_whole = true});
        weight.entries.push_back({at, weighs});
    }
    program.add(weight);
    return program;
}

TEST(Solver, a_program_without_whole_columns_costs_least_and_proves_it) {
    auto const found = solve_relaxed(knapsack(), kMany);
    ASSERT_EQ(found.has_value(), has_solver());
    if (found) {  // things 3 and 2 whole
        EXPECT_NEAR(found->cost, -9, 1e-6);
        EXPECT_NEAR(found->bound, -9, 1e-6);
    }
}

TEST(Solver, what_no_columns_satisfy_has_no_solution) {
    LinearProgram program = knapsack();
    program.rows[0].lower = program.rows[0].upper = 13;
    EXPECT_FALSE(solve_relaxed(program, kMany));
    EXPECT_FALSE(solve_whole(program, kMany));
}

TEST(Solver, prices_bound_what_any_solution_costs) {
    LinearProgram const program = knapsack();
    EXPECT_DOUBLE_EQ(bound_by_prices(program, {0}), -15);  // all three
    EXPECT_DOUBLE_EQ(bound_by_prices(program, {-1.25}), -9);
    EXPECT_DOUBLE_EQ(bound_by_prices(program, {1}), -15);  // the row has no lower limit
}

/// Whole columns of 0 and 1, one that is not whole, and rows that both have a part in.
LinearProgram random_program(std::mt19937& dice, std::size_t whole) {
    auto const roll = [&](int most) {
        return static_cast<double>(static_cast<int>(dice() % 1000) * most / 1000);
    };
    LinearProgram program;
    for (std::size_t i = 0; i < whole; ++i) {
        program.add({.cost = 1 + roll(20), .upper = 1, .is_whole = true});
    }
    std::size_t const rest = program.add({.cost = 3, .upper = 1000});
    for (int i = 0; i < 4; ++i) {
        ProgramRow row{.lower = 5 + roll(30)};
        for (std::size_t at = 0; at < whole; ++at) {
            row.entries.push_back({at, 1 + roll(10)});
        }
        row.entries.push_back({rest, 1 + roll(3)});
        program.add(row);
    }
    return program;
}

/// Of all choices of the whole columns, the least cost.
double by_trying_all(LinearProgram const& program, std::size_t whole) {
    double least = kUnlimited;
    for (std::uint64_t choice = 0; choice < (1ULL << whole); ++choice) {
        double cost = 0;
        double rest = 0;
        auto const is_in = [&](std::size_t at) { return at < whole && (choice >> at & 1) != 0; };
        for (std::size_t at = 0; at < whole; ++at) {
            cost += is_in(at) ? program.columns[at].cost : 0;
        }
        for (ProgramRow const& row : program.rows) {
            double missing = row.lower;
            for (ProgramEntry const& entry : row.entries) {
                missing -= is_in(entry.column) ? entry.factor : 0;
            }
            rest = std::max(rest, missing / row.entries.back().factor);
        }
        least = std::min(least, cost + 3 * rest);
    }
    return least;
}

TEST(Solver, whole_columns_cost_what_trying_all_finds_and_the_same_program_gives_the_same_answer) {
    std::mt19937 dice(7);
    for (int i = 0; i < 30; ++i) {
        LinearProgram const program = random_program(dice, 8);
        auto const found = solve_whole(program, kMany);
        ASSERT_EQ(found.has_value(), has_solver());
        if (!found) {
            continue;
        }
        double const least = by_trying_all(program, 8);
        EXPECT_NEAR(found->cost, least, 1e-3 * least) << i;
        EXPECT_LE(found->bound, found->cost + 1e-9) << i;
        EXPECT_LE(solve_relaxed(program, kMany)->bound, least + 1e-6) << i;
        EXPECT_EQ(solve_whole(program, kMany)->columns, found->columns) << i;
    }
}

TEST(Solver, where_nothing_may_be_tried_what_is_found_at_once_is_a_solution) {
    std::mt19937 dice(3);
    LinearProgram const program = random_program(dice, 8);
    if (auto const found = solve_whole(program, 0)) {
        EXPECT_GE(found->cost, by_trying_all(program, 8) - 1e-6);
        EXPECT_LE(found->bound, found->cost);
    }
}

}  // namespace
}  // namespace spillway
