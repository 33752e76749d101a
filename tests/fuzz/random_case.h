// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Seeded random steps, machines, budgets, plans and faults for the executor's property tests.
#pragma once

#include "executor/executor.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "simulator/simulator.h"
#include "trace/trace.h"

#include <cstdint>
#include <optional>
#include <random>
#include <string>

namespace spillway::fuzz {

/// The same draws on every platform, unlike std::uniform_int_distribution.
class Dice {
  public:
    explicit Dice(std::uint64_t seed) : engine_(seed) {}
    /// In [least, most].
    std::int64_t in(std::int64_t least, std::int64_t most) {
        return least +
               static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(most - least + 1));
    }
    bool percent(std::int64_t chance) { return in(1, 100) <= chance; }

  private:
    std::mt19937_64 engine_;
};

/// One input of `simulate`.
struct Case {
    Trace trace;
    Machine machine;
    ExecutorOptions options;
    std::optional<Plan> plan;
    SimulatorOptions how;
};

/// Graphs that are built, used in part, used again, left and dropped in any interleaving; values
/// that never become unshared; budgets from hopeless to ample; plans that know too much and too
/// little.
[[nodiscard]] Case random_case(std::uint64_t seed);

[[nodiscard]] Trace random_trace(Dice& dice);
/// Gives some of the values recipes, of whatever was saved before.
void random_recipes(Dice& dice, Trace& trace);
[[nodiscard]] Machine random_machine(Dice& dice);
[[nodiscard]] Plan random_plan(Dice& dice, Trace const& trace);

/// Everything needed to understand a failing seed.
[[nodiscard]] std::string describe(Case const& subject);

}  // namespace spillway::fuzz
