// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a policy makes a plan of, and the one way to have it made: by its name, checked and
// foretold.
#pragma once

#include "base/option.h"
#include "base/result.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "trace/trace.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace spillway {

/// Bytes. A device budget of 0 is no limit; a pool of 0 is not used.
struct Budgets {
    std::int64_t device_bytes = 0;
    std::int64_t host_bytes = 0;
    std::int64_t nvme_bytes = 0;

    /// Whether anything can leave the device.
    [[nodiscard]] bool has_pool() const { return host_bytes > 0 || nvme_bytes > 0; }

    bool operator==(Budgets const&) const = default;
};

/// Whether the machine has what the budgets are of.
///
/// Fails   Errc::unsupported: a budget of host or NVMe, and no such tier, or no link both ways
[[nodiscard]] Result<void> check_budgets(Machine const& machine, Budgets const& budgets);

/// A policy's name and its parameters, as people write them: "te", "te:layers=8".
struct PolicyChoice {
    std::string name;
    std::map<std::string, double, std::less<>> parameters{};  ///< those that were given

    bool operator==(PolicyChoice const&) const = default;
};

/// Fails   Errc::bad_argument in one line: no such policy, or none that makes plans; a parameter
///         that it does not have, twice, or no whole number of its range
[[nodiscard]] Result<PolicyChoice> parse_policy_choice(std::string_view text);
/// As `parse_policy_choice` reads it.
[[nodiscard]] std::string to_text(PolicyChoice const& choice);

/// Nanoseconds that compute waited for what returned, in one step, by slot; only where it waited.
using ReturnWaits = std::map<Slot, std::int64_t>;

/// A plan that has run, and what a step of it waited for.
struct PlanRan {
    Plan plan;
    ReturnWaits waits_ns{};
};

/// What a policy's own function gets. All outlive the call.
struct PlanRequest {
    Trace const& trace;
    Machine const& machine;
    Budgets budgets;
    std::map<std::string, double, std::less<>> parameters;  ///< every one that the policy declares
    /// The plan that this request had until now, to be mended by what it waited for (feedback.h).
    /// Null: there is none yet, or the policy does not learn (Policy::learns).
    PlanRan const* ran = nullptr;
    Face face = Face::program;  ///< whose names of options words use

    /// Where what moves waits: the host where it has a budget, else NVMe.
    [[nodiscard]] Pool pool() const { return budgets.host_bytes > 0 ? Pool::host : Pool::nvme; }
    [[nodiscard]] double parameter(std::string_view name) const;
};

/// What a session has its plan made by, and mended (`make_plan`).
using Planner = std::function<Result<Plan>(Trace const&, PlanRan const*)>;

/// Why it made none, for people, beside a name of the policy: without that name in front.
[[nodiscard]] std::string why_no_plan(Error const& error);

/// Has the policy make a plan, checks it (`validate`), and simulates two steps of it: the second
/// one's time and the peak become the plan's predictions. What the policy calls the plan follows
/// its name in brackets: "auto (str)". A policy that learns is asked again with what the simulation
/// waited for, as a session asks it with what was measured, and the quickest plan counts. `ran`:
/// what a session measured; then the policy is asked once, to mend that plan. `face`: whose names
/// of options an error uses.
///
/// Fails   Errc::bad_argument: trace, machine or choice is not valid; Errc::out_of_memory: no plan
/// of this policy fits, with the bytes that are missing;
///         Errc::unsupported: what the policy needs and the trace or machine lacks (layers, a pool)
[[nodiscard]] Result<Plan> make_plan(
    PolicyChoice const& choice,
    Trace const& trace,
    Machine const& machine,
    Budgets const& budgets,
    PlanRan const* ran = nullptr,
    Face face = Face::program
);

}  // namespace spillway
