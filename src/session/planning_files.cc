// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The commands that plan: files in, text out.

#include "base/units.h"
#include "machine/data_sheets.h"
#include "policy/catalog.h"
#include "report/chrome_trace.h"
#include "session/foretell.h"
#include "session/input_files.h"
#include "spillway/planning.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

namespace spillway {

namespace {

struct Input {
    Trace trace;
    Machine machine;
    Budgets budgets;
};

std::int64_t capacity_or(
    Machine const& machine, Pool pool, std::optional<std::int64_t> asked_bytes
) {
    MachineTier const* const tier = find_tier(machine, pool);
    return asked_bytes.value_or(tier == nullptr ? 0 : tier->capacity_bytes);
}

Result<Input> read_input(PlanningFiles const& files, PlanningBudgets const& asked) {
    Result<Trace> trace = read_trace(files.trace);
    if (!trace.ok()) {
        return trace.error();
    }
    Result<Machine> machine = read_machine(files.machine);
    if (!machine.ok()) {
        return machine.error();
    }
    bool const has_limit = asked.device_bytes > 0;
    Budgets const budgets{
        has_limit ? asked.device_bytes : capacity_or(*machine, Pool::device, {}),
        capacity_or(*machine, Pool::host, asked.host_bytes),
        capacity_or(*machine, Pool::nvme, asked.nvme_bytes)};
    return Input{std::move(trace).value(), std::move(machine).value(), budgets};
}

std::string seconds(std::int64_t time_ns) {
    return fmt::format("{:.3f} s", static_cast<double>(time_ns) / 1e9);
}

double share(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

std::string row(std::string_view label, std::string const& value, std::string const& note = {}) {
    std::string line = fmt::format("{:<20}{:>12}  {}", label, value, note);
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
}

std::string table_of(SimulationResult const& step, Trace const& trace, Machine const& machine) {
    std::string table = fmt::format(
        "{} on {}\n",
        trace.name.empty() ? "trace" : trace.name,
        machine.name.empty() ? "machine" : machine.name
    );
    double const ratio = share(step.total_ns, step.compute_ns);
    table += row("step", seconds(step.total_ns), fmt::format("{:.3f} of compute alone", ratio));
    table += row("waits for loads", seconds(step.stall_need_ns));
    table += row("waits for room", seconds(step.stall_room_ns));
    if (step.slowed_ns > 0) {
        table += row("slowed by copies", seconds(step.slowed_ns));
    }
    table += row("stored", format_size(step.stored_bytes));
    table += row("loaded", format_size(step.loaded_bytes));
    if (step.recomputed_bytes > 0) {
        table += row("made again", format_size(step.recomputed_bytes));
    }
    for (Pool const pool : {Pool::device, Pool::host, Pool::nvme}) {
        std::int64_t const peak = step.peak_bytes[static_cast<std::size_t>(pool)];
        std::string const note =
            pool == Pool::device
                ? fmt::format("of {} with nothing moved", format_size(peak_without_moves(trace)))
                : "";
        if (peak > 0) {
            table += row(fmt::format("peak, {}", name_of(pool)), format_size(peak), note);
        }
    }
    auto const average = [&](double byte_ns) {
        auto const time_ns = static_cast<double>(std::max<std::int64_t>(1, step.total_ns));
        return format_size(static_cast<std::int64_t>(byte_ns / time_ns));
    };
    std::string const saved = average(step.value_byte_ns) + " of it saved tensors";
    table += row("average, device", average(step.device_byte_ns), saved);
    return table;
}

Result<void> write(std::string const& path, std::string const& text) {
    std::ofstream file(path, std::ios::trunc);
    file << text << std::flush;
    if (!file) {
        return Error{Errc::io, "cannot write: " + std::generic_category().message(errno), path};
    }
    return {};
}

/// "te: step 1.2 s ...", with the plan's bound if it has one.
std::string summary_of(Plan const& plan, Policy const& policy, Trace const& trace) {
    std::int64_t const compute_ns = compute_ns_of(trace);
    std::string summary = fmt::format(
        "{}: step {} ({:.3f} of {} of compute), peak {} of {} with nothing moved",
        plan.policy,
        seconds(plan.predicted_step_ns),
        share(plan.predicted_step_ns, compute_ns),
        seconds(compute_ns),
        format_size(plan.predicted_peak_bytes),
        format_size(peak_without_moves(trace))
    );
    if (plan.bound_step_ns > 0) {
        // The bound of a policy that only moves says nothing of recomputes.
        summary += fmt::format(
            ", no plan {}takes less than {} (gap {:.1f} %)",
            policy.recomputes ? "" : "without recomputes ",
            seconds(plan.bound_step_ns),
            100 * (share(plan.predicted_step_ns, plan.bound_step_ns) - 1)
        );
    }
    return summary;
}

/// A refusal for want of room names the smallest budget that works.
Error with_smallest_budget(Error error, Input const& input) {
    if (error.code == Errc::out_of_memory) {
        std::int64_t const most = peak_without_moves(input.trace) + 1;
        std::int64_t const floor =
            smallest_budget("online", input.trace, input.machine, input.budgets, most);
        if (floor > 0) {
            error.what += fmt::format(
                "; the smallest --device-budget that `online` runs this step under is {}",
                format_size(floor)
            );
        }
    }
    return error;
}

}  // namespace

std::vector<std::string> machine_names() {
    return data_sheet_names();
}

Result<PlanText> plan_of_files(
    PlanningFiles const& files, std::string const& policy, PlanningBudgets const& budgets
) {
    Result<PolicyChoice> const choice = parse_policy_choice(policy);
    if (!choice.ok()) {
        return choice.error();
    }
    Result<Input> const input = read_input(files, budgets);
    if (!input.ok()) {
        return input.error();
    }
    Result<Plan> const plan = make_plan(*choice, input->trace, input->machine, input->budgets);
    if (!plan.ok()) {
        return with_smallest_budget(plan.error(), *input);
    }
    return PlanText{
        to_json_text(*plan),
        summary_of(*plan, *find_policy(policy), input->trace),
        note_of_recipes(input->trace, {policy})};
}

Result<std::string> simulation_of_files(
    PlanningFiles const& files,
    std::string const& plan_file,
    PlanningBudgets const& budgets,
    std::string const& timeline
) {
    Result<Input> const input = read_input(files, budgets);
    if (!input.ok()) {
        return input.error();
    }
    Result<Plan> const plan = read_plan(plan_file);
    if (!plan.ok()) {
        return plan.error();
    }
    if (Result<void> const fits = validate(*plan, input->trace, input->machine); !fits) {
        return Error{fits.error().code, fits.error().message(), plan_file};
    }
    // The plan's own budget, unless another one was asked for.
    bool const is_asked = budgets.device_bytes > 0 || plan->device_bytes == 0;
    std::int64_t const capacity_bytes = capacity_or(input->machine, Pool::device, {});
    if (!is_asked && capacity_bytes > 0 && plan->device_bytes > capacity_bytes) {
        return Error{
            Errc::bad_argument,
            fmt::format(
                "the plan is for a device budget of {}, and the machine's device has {}; "
                "--device-budget asks for another",
                format_size(plan->device_bytes),
                format_size(capacity_bytes)
            ),
            plan_file};
    }
    ExecutorOptions const options{
        .chooser = ChooserKind::planned,
        .device_bytes = is_asked ? input->budgets.device_bytes : plan->device_bytes,
        .host_bytes = input->budgets.host_bytes,
        .nvme_bytes = input->budgets.nvme_bytes};
    bool const has_recipes = makes_again(*plan) || !input->budgets.has_pool();
    Result<SimulationResult> const step = simulate_steady_step(
        input->trace, input->machine, options, &*plan, has_recipes, !timeline.empty()
    );
    if (!step.ok()) {
        return step.error();
    }
    if (!step->ok) {
        return Error{Errc::out_of_memory, step->refusal, plan_file};
    }
    if (!timeline.empty()) {
        if (Result<void> const written = write(timeline, to_chrome_trace(step->timeline));
            !written) {
            return written.error();
        }
    }
    return table_of(*step, input->trace, input->machine);
}

Result<Comparison> compare_files(
    PlanningFiles const& files,
    std::vector<std::string> const& policies,
    std::vector<std::int64_t> const& budgets,
    PlanningBudgets const& others
) {
    Result<Input> const input = read_input(files, others);
    if (!input.ok()) {
        return input.error();
    }
    return compare(input->trace, input->machine, policies, budgets, input->budgets);
}

Result<Comparison> fit_files(
    PlanningFiles const& files, std::string const& policy, PlanningBudgets const& others
) {
    Result<Input> const input = read_input(files, others);
    if (!input.ok()) {
        return input.error();
    }
    return fit(input->trace, input->machine, policy, input->budgets);
}

}  // namespace spillway
