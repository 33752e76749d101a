// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Plans of a recorded step, made, foretold and compared from files alone: no torch, no device. All
// of it is the simulator's word: what runs is the same executor in real time.
#pragma once

#include "base/result.h"
#include "base/session_options.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

/// Bytes.
struct PlanningBudgets {
    std::int64_t device_bytes = 0;             ///< 0: what the machine's file says
    std::optional<std::int64_t> host_bytes{};  ///< none: what the machine's file says; 0: not used
    std::optional<std::int64_t> nvme_bytes{};  ///< as `host_bytes`
};

/// A step, recorded or foretold, and the machine that it is to run on (docs/formats).
struct PlanningFiles {
    std::string trace;    ///< a file
    std::string machine;  ///< a file, or else the name of a data sheet: "h100"
};

struct PlanText {
    std::string json;  ///< the plan (docs/formats/plan.md)
    /// One line: the policy, its step and peak as foretold, beside no moves, and the plan's bound.
    std::string summary;
    std::string note{};  ///< one line: what the trace lacks that the policy uses; empty: nothing
};

/// The machines of data sheets: "a100_40" and so on, in alphabetical order.
[[nodiscard]] std::vector<std::string> machine_names();

/// The machine that a session on the CPU would run on with these options, as text: its places, and
/// how fast bytes move between them, measured. Takes some tenths of a second for each place. The
/// device has `device_budget_bytes`; 0: all memory that this process may use.
///
/// Fails   Errc::bad_argument, Errc::io, ...: one line that names an option as `options.face` does
[[nodiscard]] Result<std::string> machine_text_here(SessionOptions const& options);

/// The plan that `policy` ("te:layers=8") makes.
///
/// Fails   Errc::io, Errc::bad_format, Errc::bad_argument: one line that names file, key and
/// reason;
///         Errc::out_of_memory: no plan of that policy fits; Errc::unsupported: what it needs
[[nodiscard]] Result<PlanText> plan_of_files(
    PlanningFiles const& files, std::string const& policy, PlanningBudgets const& budgets
);

/// A table of what a plan costs. `timeline`: a file for trace viewers; empty: none.
///
/// Fails   as plan_of_files; Errc::bad_argument: the plan is of another step or machine
[[nodiscard]] Result<std::string> simulation_of_files(
    PlanningFiles const& files,
    std::string const& plan,
    PlanningBudgets const& budgets,
    std::string const& timeline
);

/// One policy under one device budget.
struct Foretold {
    std::string policy{};
    std::int64_t device_bytes = 0;  ///< the budget
    std::string refusal{};          ///< why it cannot run; empty: it can, and the rest is known
    std::int64_t step_ns = 0;
    std::int64_t peak_bytes = 0;           ///< of the device
    std::int64_t average_bytes = 0;        ///< of the device, over the step's time
    std::int64_t average_saved_bytes = 0;  ///< of saved tensors on the device alone
    std::int64_t stored_bytes = 0;
    std::int64_t loaded_bytes = 0;
    std::int64_t recomputed_bytes = 0;
    std::int64_t stall_ns = 0;       ///< that compute waits
    std::int64_t bound_step_ns = 0;  ///< of the plan: a proven lower bound of the step; 0: none
    bool lossy = false;              ///< some of what moves loses something by its codec
};

struct Comparison {
    std::string trace{};
    std::string machine{};
    std::int64_t compute_ns = 0;  ///< of the step with everything on the device
    std::int64_t peak_bytes = 0;  ///< of the device then
    /// The smallest device budget under which `floor_policy` runs, and `online`, which records;
    /// with 2 % for how blocks lie in memory, up to the peak.
    std::int64_t floor_bytes = 0;
    std::string floor_policy{};  ///< `fit`: the one that it was asked for; `compare`: `online`
    std::string tightest{};      ///< the point and the values that decide it, in a line
    /// As PlanText::note, of all policies, and what limits the budgets; not in the JSON.
    std::string note{};
    std::vector<std::int64_t> budgets{};
    std::vector<Foretold> rows{};  ///< by policy, then by budget, in the order of `budgets`

    [[nodiscard]] std::string to_table() const;
    [[nodiscard]] std::string to_json() const;
};

/// Every policy under every budget, simulated by all cores. No `policies`: `online` and all that
/// make plans. No `budgets`: floor + x (peak - floor), x = 3/4, 1/2 and 1/4, equal ones once.
///
/// Fails   as plan_of_files; what a single policy cannot do is in its row
[[nodiscard]] Result<Comparison> compare_files(
    PlanningFiles const& files,
    std::vector<std::string> const& policies,
    std::vector<std::int64_t> const& budgets,
    PlanningBudgets const& others
);

/// Which budget: one policy under budgets from the peak down to the smallest that works, each once.
///
/// Fails   as plan_of_files; Errc::out_of_memory: it does not even run with the peak
[[nodiscard]] Result<Comparison> fit_files(
    PlanningFiles const& files, std::string const& policy, PlanningBudgets const& others
);

}  // namespace spillway
