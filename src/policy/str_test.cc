// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/str.h"

#include "policy/chain_test.h"
#include "policy/forecast.h"
#include "policy/solver.h"
#include "policy/step_program.h"
#include "policy/transfer_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kLayers = 48;
constexpr std::int64_t kPlainNs = kLayers * (kChainForwardNs + kChainBackwardNs);
/// 48 sets and half a set of floor; 20 sets have to be away.
constexpr std::int64_t kBudget = 28 * kChainSetBytes + kChainFloorBytes;
/// A set takes five layers' forwards, or two and a half backwards.
constexpr double kSlowRate = 2e8;

/// Half of the values can be made again, each in the time of its forward.
Trace str_chain() {
    return chain_with_recipes(kLayers, kChainForwardNs);
}

Result<Plan> str_plan(Trace const& trace, double rate, std::int64_t device_bytes) {
    return make_plan(
        {"str", {}}, trace, fast_machine(rate), {.device_bytes = device_bytes, .host_bytes = 1_GiB}
    );
}

/// The step if the first 20 of those that can be made again are, and nothing is meant to move.
std::int64_t time_of_recomputes_alone() {
    Trace const trace = str_chain();
    Machine const machine = fast_machine(kSlowRate);
    Plan plan;
    for (std::int64_t i = 0; i < kLayers; ++i) {
        plan.fates[of_layer(static_cast<std::int32_t>(i))].kind =
            i % 2 == 1 && i < 40 ? FateKind::recompute : FateKind::keep;
    }
    Budgets const budgets{.device_bytes = kBudget, .host_bytes = 1_GiB};
    Result<Forecast> const costs = forecast({trace, machine, budgets, {}}, budgets, plan);
    EXPECT_TRUE(costs.ok() && costs->fits);
    return costs->step_ns;
}

TEST(Str, where_the_link_hides_a_part_it_beats_swaps_alone_and_recomputes_alone) {
    Result<Plan> const plan = str_plan(str_chain(), kSlowRate, kBudget);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    Result<Plan> const swaps = str_plan(chain(kLayers), kSlowRate, kBudget);
    ASSERT_TRUE(swaps.ok()) << swaps.error().message();
    std::int64_t const extra_ns = plan->predicted_step_ns - kPlainNs;
    EXPECT_LT(extra_ns, swaps->predicted_step_ns - kPlainNs);
    EXPECT_LT(extra_ns, time_of_recomputes_alone() - kPlainNs);
    EXPECT_GT(count_of(*plan, FateKind::move), 0);
    EXPECT_GT(count_of(*plan, FateKind::recompute), 0);
    // The link hides ten sets, nine at least; what is left is made again, a millisecond each.
    EXPECT_LT(extra_ns, 15 * kChainForwardNs);
}

TEST(Str, what_hides_is_swapped_alone) {
    Result<Plan> const plan = str_plan(str_chain(), 2e9, kBudget);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(count_of(*plan, FateKind::recompute), 0);
    EXPECT_EQ(plan->predicted_step_ns, kPlainNs);
}

TEST(Str, with_room_for_all_nothing_leaves) {
    for (std::int64_t const device_bytes : {std::int64_t{0}, 60 * kChainSetBytes}) {
        Result<Plan> const plan = str_plan(str_chain(), kSlowRate, device_bytes);
        ASSERT_TRUE(plan.ok()) << plan.error().message();
        EXPECT_EQ(count_of(*plan, FateKind::keep), kLayers);
    }
}

TEST(Str, what_does_not_fit_says_what_it_takes) {
    Result<Plan> const plan = str_plan(str_chain(), kSlowRate, kChainSetBytes / 2);
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, Errc::out_of_memory);
}

// What is made again may hang on what is made again: chains have no bound but the room that they
// take.
TEST(Str, recipes_in_a_long_row_fit) {
    Trace trace = chain(kLayers);
    for (std::int64_t i = 1; i < kLayers; ++i) {
        trace.values[static_cast<std::size_t>(i)].recipe =
            RecipeShape{.sources = {ValueId{i - 1}}, .calls = 1, .duration_ns = 1000};
    }
    Result<Plan> const plan = str_plan(trace, 1e7, kBudget);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_LE(plan->predicted_peak_bytes, kBudget);
    std::int64_t in_a_row = 0;
    std::int64_t longest = 0;
    for (auto const& [slot, fate] : plan->fates) {
        in_a_row = fate.kind == FateKind::recompute ? in_a_row + 1 : 0;
        longest = std::max(longest, in_a_row);
    }
    EXPECT_GT(longest, has_solver() ? 1 : 8);  // which finds that short ones take half the time
}

TEST(Str, a_thousand_values_are_planned_for) {
    Result<Plan> const plan =
        str_plan(chain_with_recipes(1000, kChainForwardNs), kSlowRate, 600 * kChainSetBytes);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_GT(count_of(*plan, FateKind::recompute), 0);
}

/// Of values of several sizes, most of which can be made again from the one before.
Trace random_str_chain(std::mt19937& dice, std::int64_t layers) {
    auto const roll = [&](std::int64_t most) {
        return static_cast<std::int64_t>(dice() % static_cast<std::uint64_t>(most));
    };
    Trace trace = chain(layers);
    for (std::int64_t i = 0; i < layers; ++i) {
        TraceValue& value = trace.values[static_cast<std::size_t>(i)];
        value.size_bytes = kChainSetBytes / 2 * (1 + roll(3));
        if (i > 0 && roll(4) > 0) {
            value.recipe = RecipeShape{
                .sources = {ValueId{i - 1}}, .calls = 1, .duration_ns = 100'000 * (1 + roll(30))};
        }
    }
    return trace;
}

/// Half of what can leave is away.
std::int64_t half_of(StepView const& step) {
    std::vector<ValueId> all;
    for (std::size_t i = 0; i < step.values.size(); ++i) {
        all.emplace_back(static_cast<std::int64_t>(i));
    }
    return (peak_without(step, all) + peak_without_moves(step.trace)) / 2;
}

/// All ways to keep, move and make again that fit if moves take no time.
std::vector<std::vector<FateKind>> all_fates(StepView const& step, std::int64_t budget) {
    std::vector<std::vector<FateKind>> all{{}};
    for (TraceValue const& value : step.trace.values) {
        std::vector<std::vector<FateKind>> longer;
        for (std::vector<FateKind> const& some : all) {
            for (FateKind const kind : {FateKind::keep, FateKind::move, FateKind::recompute}) {
                if (kind != FateKind::recompute || value.recipe) {
                    longer.push_back(some);
                    longer.back().push_back(kind);
                }
            }
        }
        all = std::move(longer);
    }
    std::erase_if(all, [&](std::vector<FateKind> const& fates) {
        std::vector<ValueId> away;
        for (std::size_t i = 0; i < fates.size(); ++i) {
            if (fates[i] != FateKind::keep) {
                away.emplace_back(static_cast<std::int64_t>(i));
            }
        }
        return peak_without(step, away) > budget;
    });
    return all;
}

TEST(Str, the_program_costs_what_the_best_of_all_fates_costs) {
    std::mt19937 dice(11);
    for (std::int64_t const layers : {3, 4, 5}) {
        Trace const trace = random_str_chain(dice, layers);
        StepView const step(trace);
        std::int64_t const budget = half_of(step);
        StepProgram const whole = step_program(
            step,
            {.device_bytes = budget,
             .out_rate = 3e8,
             .in_rate = 3e8,
             .capacity_bytes = 1_GiB,
             .is_whole = true}
        );
        std::optional<ProgramSolution> const best = solve_whole(whole.program, 1000);
        ASSERT_EQ(best.has_value(), has_solver());
        double least = kUnlimited;
        for (std::vector<FateKind> const& fates : all_fates(step, budget)) {
            LinearProgram fixed = whole.program;
            for (std::size_t i = 0; i < fates.size(); ++i) {
                for (auto const& [kind, columns] :
                     {std::pair(FateKind::move, &whole.moved),
                      std::pair(FateKind::recompute, &whole.remade)}) {
                    if (std::optional<std::size_t> const column = (*columns)[i]) {
                        double const share = fates[i] == kind ? 1 : 0;
                        fixed.columns[*column].lower = fixed.columns[*column].upper = share;
                    }
                }
            }
            if (auto const found = solve_relaxed(fixed, 100000)) {
                least = std::min(least, found->cost);
            }
        }
        EXPECT_TRUE(!best || std::abs(best->cost - least) <= 1e-3 * least) << layers;
    }
}

/// Of all fates, placed as `str` places them, the fastest by simulation.
std::int64_t fastest_of_all(PlanRequest const& request) {
    StepView const step(request.trace);
    std::int64_t least = INT64_MAX;
    for (std::vector<FateKind> const& fates : all_fates(step, request.budgets.device_bytes)) {
        std::vector<ValueId> moved;
        for (std::size_t i = 0; i < fates.size(); ++i) {
            if (fates[i] == FateKind::move) {
                moved.emplace_back(static_cast<std::int64_t>(i));
            }
        }
        Plan plan;
        TransferRates const rates = transfer_rates(request.machine, Pool::host);
        place_transfers(step, moved, rates, Pool::host, plan);
        for (auto& [slot, fate] : plan.fates) {
            fate.leaves.reset();
        }
        for (std::size_t i = 0; i < fates.size(); ++i) {
            if (fates[i] == FateKind::recompute) {
                plan.fates[request.trace.values[i].slot] = {.kind = FateKind::recompute};
            }
        }
        keep_the_rest(step, plan);
        Result<Forecast> const costs = forecast(request, request.budgets, plan);
        if (costs.ok() && costs->fits) {
            least = std::min(least, costs->step_ns);
        }
    }
    return least;
}

TEST(Str, on_random_chains_it_is_about_as_fast_as_the_best_of_all_fates) {
    std::mt19937 dice(5);
    Machine const machine = fast_machine(3e8);
    for (std::int64_t const layers : {4, 5, 6, 6}) {
        Trace const trace = random_str_chain(dice, layers);
        Budgets const budgets{.device_bytes = half_of(StepView(trace)), .host_bytes = 1_GiB};
        std::int64_t const best = fastest_of_all({trace, machine, budgets, {}});
        Result<Plan> const plan = make_plan({"str", {}}, trace, machine, budgets);
        ASSERT_TRUE(plan.ok()) << plan.error().message();
        EXPECT_LE(plan->predicted_step_ns, best * (has_solver() ? 101 : 110) / 100) << layers;
        EXPECT_LE(plan->bound_step_ns, best) << layers;
    }
}

}  // namespace
}  // namespace spillway
