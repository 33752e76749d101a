// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "planning_commands.h"

#include "spillway/planning.h"
#include "spillway/policy.h"
#include "spillway/units.h"
#include "text.h"

#include <cstdio>
#include <fstream>
#include <optional>
#include <string_view>

namespace spillway::cli {

namespace {

constexpr int kBadValue = 2;

constexpr char const* kExitCodes =
    "Exit codes: 0 done, 2 an invalid value or file, or no such plan";

int refused(std::string_view command, std::string const& why) {
    std::string const line = why.substr(0, why.find('\n'));
    std::fprintf(stderr, "spillway: %s: %s\n", std::string(command).c_str(), line.c_str());
    return kBadValue;
}

void add_files(CLI::App& command, PlanningFlags& flags) {
    command.add_option("TRACE", flags.trace, "a recorded step: `train --trace`, `session.trace`")
        ->required();
    command
        .add_option(
            "MACHINE",
            flags.machine,
            "a machine's file (docs/formats/machine.md), or a name: " + listed(machine_names())
        )
        ->required();
    command.footer(kExitCodes);
}

void add_pools(CLI::App& command, PlanningFlags& flags) {
    command
        .add_option(
            "--host-budget", flags.host_budget, "host memory to use; 0: none [the machine's]"
        )
        ->type_name("SIZE");
    command.add_option("--nvme-budget", flags.nvme_budget, "NVMe to use; 0: none [the machine's]")
        ->type_name("SIZE");
}

/// `whose`: without the flag.
void add_device(CLI::App& command, PlanningFlags& flags, std::string const& whose) {
    command
        .add_option("--device-budget", flags.device_budget, "device memory [the " + whose + "'s]")
        ->type_name("SIZE");
}

/// "  te: ..." and its parameters, "  qpo (lossy): ...", a line each.
std::string list_of_policies() {
    std::string text = "Policies that make plans; parameters as in te:layers=8\n";
    for (Policy const& policy : policies()) {
        if (policy.make_plan == nullptr) {
            continue;
        }
        text += "  " + std::string(policy.name) + (policy.is_lossy ? " (lossy): " : ": ") +
                std::string(policy.what) + "\n";
        for (PolicyParameter const& parameter : policy.parameters) {
            text +=
                "      " + std::string(parameter.name) + ": " + std::string(parameter.what) + "\n";
        }
    }
    return text + kExitCodes;
}

/// Sizes as people write them; `why` says what is wrong with the first that is none.
class Sizes {
  public:
    std::int64_t read(std::string_view flag, std::string const& text) {
        return text.empty() ? 0 : at_least(1, flag, text);
    }
    /// Of a place that may have none.
    std::optional<std::int64_t> read_place(std::string_view flag, std::string const& text) {
        return text.empty() ? std::nullopt : std::optional(at_least(0, flag, text));
    }
    [[nodiscard]] std::string const& why() const { return why_; }

  private:
    std::int64_t at_least(std::int64_t least, std::string_view flag, std::string const& text) {
        Result<std::int64_t> const size = parse_size(text, 0);
        if (size.ok() && *size >= least) {
            return *size;
        }
        std::string const why = size.ok() ? "not above 0" : size.error().message();
        why_ = why_.empty() ? std::string(flag) + " " + text + ": " + why : why_;
        return 0;
    }

    std::string why_;
};

PlanningBudgets budgets_of(PlanningFlags const& flags, Sizes& sizes) {
    return {
        sizes.read("--device-budget", flags.device_budget),
        sizes.read_place("--host-budget", flags.host_budget),
        sizes.read_place("--nvme-budget", flags.nvme_budget)};
}

int run_plan(PlanningFlags const& flags, PlanningBudgets const& budgets) {
    Result<PlanText> const plan =
        plan_of_files({flags.trace, flags.machine}, flags.policy, budgets);
    if (!plan.ok()) {
        return refused("plan", plan.error().message());
    }
    std::fprintf(stderr, "%s\n", plan->summary.c_str());
    if (!plan->note.empty()) {
        std::fprintf(stderr, "note: %s\n", plan->note.c_str());
    }
    std::fputs(plan->json.c_str(), stdout);
    return 0;
}

int run_simulate(PlanningFlags const& flags, PlanningBudgets const& budgets) {
    Result<std::string> const table =
        simulation_of_files({flags.trace, flags.machine}, flags.plan, budgets, flags.timeline);
    if (!table.ok()) {
        return refused("simulate", table.error().message());
    }
    std::fputs(table->c_str(), stdout);
    return 0;
}

int show(std::string_view command, Result<Comparison> const& found, std::string const& json) {
    if (!found.ok()) {
        return refused(command, found.error().message());
    }
    if (!json.empty()) {
        std::ofstream file(json, std::ios::trunc);
        file << found->to_json() << std::flush;
        if (!file) {
            return refused(command, json + ": cannot be written");
        }
    }
    std::fputs(found->to_table().c_str(), stdout);
    return 0;
}

}  // namespace

void add_planning_commands(CLI::App& app, PlanningFlags& flags) {
    CLI::App& plan = *app.add_subcommand("plan", "Makes a policy's plan of a recorded step");
    add_files(plan, flags);
    plan.add_option("--policy", flags.policy, "the policy, with its parameters: te:layers=8")
        ->required()
        ->type_name("NAME");
    add_device(plan, flags, "machine");
    add_pools(plan, flags);
    plan.footer(list_of_policies());
    CLI::App& simulate =
        *app.add_subcommand("simulate", "Foretells what a plan costs: time, waits, peaks");
    add_files(simulate, flags);
    simulate.add_option("PLAN", flags.plan, "a plan: `plan`")->required();
    add_device(simulate, flags, "plan");
    add_pools(simulate, flags);
    simulate.add_option("--timeline", flags.timeline, "a file for Perfetto or chrome://tracing")
        ->type_name("FILE");
    CLI::App& compare =
        *app.add_subcommand("compare", "Foretells every policy under a range of budgets");
    add_files(compare, flags);
    compare.add_option("--policies", flags.policies, "some, separated by spaces [all that move]")
        ->type_name("NAME");
    compare
        .add_option(
            "--budgets",
            flags.budgets,
            "of the device, separated by spaces [three from the peak down]"
        )
        ->type_name("SIZE");
    add_pools(compare, flags);
    compare.add_option("--json", flags.json, "a file for the same as JSON")->type_name("FILE");
    compare.add_flag(
        "--real",
        flags.real,
        "refused, since a recorded step cannot be run: in Python, "
        "spillway.compare(model, step, real=True) also trains under each"
    );
    CLI::App& fit = *app.add_subcommand(
        "fit", "Foretells one policy under budgets down to the smallest that works"
    );
    add_files(fit, flags);
    fit.add_option("--policy", flags.policy, "the policy [online]")->type_name("NAME");
    add_pools(fit, flags);
    fit.add_option("--json", flags.json, "a file for the same as JSON")->type_name("FILE");
}

int run_planning(CLI::App const& app, PlanningFlags const& flags) {
    auto const is = [&](char const* name) { return app.got_subcommand(name); };
    if (!is("plan") && !is("simulate") && !is("compare") && !is("fit")) {
        return -1;
    }
    if (flags.real) {
        return refused(
            "compare",
            "--real: a recorded step cannot be run; in Python, spillway.compare(model, step, "
            "real=True) trains under each policy and budget, and the report of "
            "`spillway train --policy NAME` says foretold and measured of its models"
        );
    }
    Sizes sizes;
    PlanningBudgets const budgets = budgets_of(flags, sizes);
    std::vector<std::int64_t> several;
    for (std::string const& budget : flags.budgets) {
        several.push_back(sizes.read("--budgets", budget));
    }
    if (!sizes.why().empty()) {
        return refused(app.get_subcommands().front()->get_name(), sizes.why());
    }
    if (is("plan")) {
        return run_plan(flags, budgets);
    }
    if (is("simulate")) {
        return run_simulate(flags, budgets);
    }
    PlanningFiles const files{flags.trace, flags.machine};
    if (is("compare")) {
        return show("compare", compare_files(files, flags.policies, several, budgets), flags.json);
    }
    std::string const policy = flags.policy.empty() ? "online" : flags.policy;
    return show("fit", fit_files(files, policy, budgets), flags.json);
}

}  // namespace spillway::cli
