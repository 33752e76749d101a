// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What policies would cost on a recorded step, by simulation.
#pragma once

#include "base/result.h"
#include "machine/machine.h"
#include "policy/planner.h"
#include "simulator/simulator.h"
#include "spillway/planning.h"
#include "trace/trace.h"

#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

/// The steady step of a plan, or of a chooser (`plan` null): two steps less the first one. Not ok:
/// the result carries the refusal.
///
/// Fails   as `simulate`
[[nodiscard]] Result<SimulationResult> simulate_steady_step(
    Trace const& trace,
    Machine const& machine,
    ExecutorOptions const& options,
    Plan const* plan,
    bool has_recipes,
    bool keep_timeline = false
);

/// `policy`: a name of the catalogue, with parameters; one that makes no plan is a chooser.
[[nodiscard]] Foretold foretell(
    std::string const& policy, Trace const& trace, Machine const& machine, Budgets const& budgets
);

/// The smallest device budget under which the policy runs, and `online`, under which a session
/// records the step that the policy plans; to a thousandth, by bisection. 0: not under `most_bytes`
/// either.
[[nodiscard]] std::int64_t smallest_budget(
    std::string const& policy,
    Trace const& trace,
    Machine const& machine,
    Budgets const& others,
    std::int64_t most_bytes
);

/// One line if the trace has no recipe, and policies among these would make values again. Else
/// empty. Every name is one of the catalogue's.
[[nodiscard]] std::string note_of_recipes(
    Trace const& trace, std::vector<std::string> const& policies
);

/// As compare_files.
[[nodiscard]] Result<Comparison> compare(
    Trace const& trace,
    Machine const& machine,
    std::vector<std::string> const& policies,
    std::vector<std::int64_t> const& budgets,
    Budgets const& others
);

/// As fit_files.
[[nodiscard]] Result<Comparison> fit(
    Trace const& trace, Machine const& machine, std::string const& policy, Budgets const& others
);

}  // namespace spillway
