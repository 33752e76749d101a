// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/foretell.h"

#include "base/units.h"
#include "plan/planned_codec.h"
#include "policy/catalog.h"
#include "report/tight_point.h"
#include "report/trace_table.h"
#include "session/making_again.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <utility>

namespace spillway {

namespace {

constexpr std::int64_t kPageBytes = 4096;
constexpr int kFitBudgets = 8;
/// A real step takes up to one part in so many more than the recorded one does in the simulation:
/// blocks of other sizes lie beside each other once an optimizer's state is there.
constexpr std::int64_t kPartMore = 50;

ExecutorOptions options_of(ChooserKind chooser, EvictionRule eviction, Budgets const& budgets) {
    return {
        .chooser = chooser,
        .device_bytes = budgets.device_bytes,
        .host_bytes = budgets.host_bytes,
        .nvme_bytes = budgets.nvme_bytes,
        .eviction = eviction};
}

/// The chooser and, of a policy that makes one, the plan.
Result<std::optional<Plan>> plan_of(
    std::string const& policy, Trace const& trace, Machine const& machine, Budgets const& budgets
) {
    Result<PolicyChoice> const choice = parse_policy_choice(policy);
    if (!choice.ok()) {
        return choice.error();
    }
    if (find_policy(policy)->make_plan == nullptr) {
        return std::optional<Plan>();
    }
    Result<Plan> plan = make_plan(*choice, trace, machine, budgets);
    if (!plan.ok()) {
        return plan.error();
    }
    return std::optional(std::move(plan).value());
}

/// As a session with the default `recompute` has.
bool has_recipes(Policy const& policy, std::optional<Plan> const& plan, Budgets const& budgets) {
    bool const by_plan = plan && policy.recomputes && uses_recipes(*plan);
    return by_plan || makes_again_unplanned(policy, budgets.has_pool());
}

/// Whether it is refused where nothing can move. Others have values made again there.
bool only_moves(Policy const& policy) {
    return policy.needs_pool() && policy.plans_in_session();
}

/// Calls `work(i)` for each of `count` on all cores.
template <typename Work>
void on_all_cores(std::size_t count, Work const& work) {
    std::atomic<std::size_t> next = 0;
    auto const run = [&] {
        for (std::size_t i = next++; i < count; i = next++) {
            work(i);
        }
    };
    std::vector<std::thread> threads(
        std::min<std::size_t>(count, std::max(1U, std::thread::hardware_concurrency())) -
        (count > 0)
    );
    for (std::thread& thread : threads) {
        thread = std::thread(run);
    }
    run();
    for (std::thread& thread : threads) {
        thread.join();
    }
}

/// `policy`: whose smallest budget is the floor.
Result<Comparison> comparison_of(
    Trace const& trace,
    Machine const& machine,
    Budgets const& others,
    std::string const& policy,
    std::vector<std::string> const& policies
) {
    Comparison all{.trace = trace.name, .machine = machine.name};
    if (Result<void> const fine = validate(trace); !fine) {
        return fine.error();
    }
    if (Result<void> const fine = validate(machine); !fine) {
        return fine.error();
    }
    if (Result<void> const fine = check_budgets(machine, others); !fine) {
        return Error{Errc::bad_argument, fine.error().what, "machine"};
    }
    bool const all_move = std::all_of(policies.begin(), policies.end(), [](auto const& each) {
        return only_moves(*find_policy(each));
    });
    if (all_move && !others.has_pool()) {
        return Error{
            Errc::bad_argument,
            "nothing can move: the machine has neither host memory nor NVMe, or their budgets are "
            "0; policies that make layers again need neither (auto, online, rotor)",
            "machine"};
    }
    all.compute_ns = compute_ns_of(trace);
    all.peak_bytes = peak_without_moves(trace);
    all.tightest = to_line(tightest_point(trace), trace);
    all.note = note_of_recipes(trace, policies);
    all.floor_policy = policy;
    std::int64_t const least =
        smallest_budget(policy, trace, machine, others, all.peak_bytes + kPageBytes);
    all.floor_bytes = std::max(least, std::min(least + least / kPartMore, all.peak_bytes));
    return all;
}

/// 0: not known.
std::int64_t device_capacity(Machine const& machine) {
    MachineTier const* const tier = find_tier(machine, Pool::device);
    return tier == nullptr ? 0 : tier->capacity_bytes;
}

/// Up to which budgets go: the peak, or what the machine's device has, where a step fits into it.
std::int64_t most_bytes(Comparison const& all, Machine const& machine) {
    std::int64_t const peak_bytes = all.peak_bytes + kPageBytes;
    std::int64_t const capacity_bytes = device_capacity(machine) / kPageBytes * kPageBytes;
    return capacity_bytes > all.floor_bytes ? std::min(peak_bytes, capacity_bytes) : peak_bytes;
}

/// Unless it is the one before, as where the floor is about the peak.
void add_budget(Comparison& all, std::int64_t size_bytes) {
    std::int64_t const budget_bytes = round_up(size_bytes, kPageBytes);
    if (all.budgets.empty() || all.budgets.back() != budget_bytes) {
        all.budgets.push_back(budget_bytes);
    }
}

void add_note(Comparison& all, std::string const& note) {
    all.note += (all.note.empty() ? "" : "; ") + note;
}

void add_note_of_floor(Comparison& all, std::string const& policy) {
    if (all.floor_bytes >= all.peak_bytes) {
        bool const moves = find_policy(policy)->moves;
        std::string const what = moves ? "can leave" : policy + " makes again";
        add_note(all, "nothing that " + what + " lowers the peak");
    }
}

void add_note_of_capacity(Comparison& all, Machine const& machine) {
    std::int64_t const capacity_bytes = device_capacity(machine);
    bool const is_above = std::ranges::any_of(all.budgets, [&](std::int64_t budget) {
        return budget > capacity_bytes;
    });
    if (capacity_bytes > 0 && is_above) {
        add_note(
            all,
            fmt::format(
                "the machine's device has {}; larger budgets need another machine",
                format_size(capacity_bytes)
            )
        );
    }
}

std::int64_t average_of(double byte_ns, std::int64_t time_ns) {
    return time_ns > 0 ? static_cast<std::int64_t>(byte_ns / static_cast<double>(time_ns)) : 0;
}

void fill(
    Comparison& all,
    Trace const& trace,
    Machine const& machine,
    std::vector<std::string> const& policies,
    Budgets const& others
) {
    all.rows.resize(policies.size() * all.budgets.size());
    on_all_cores(all.rows.size(), [&](std::size_t i) {
        Budgets budgets = others;
        budgets.device_bytes = all.budgets[i % all.budgets.size()];
        all.rows[i] = foretell(policies[i / all.budgets.size()], trace, machine, budgets);
    });
}

}  // namespace

Result<SimulationResult> simulate_steady_step(
    Trace const& trace,
    Machine const& machine,
    ExecutorOptions const& options,
    Plan const* plan,
    bool has_recipes,
    bool keep_timeline
) {
    SimulatorOptions how{
        .order = OrderHint::exact,
        .has_recipes = has_recipes,
        .keep_log = false,
        .keep_timeline = false};
    Result<SimulationResult> const first = simulate(trace, machine, options, plan, how);
    if (!first.ok() || !first->ok) {
        return first;
    }
    how.steps = 2;
    how.keep_timeline = keep_timeline;
    Result<SimulationResult> both = simulate(trace, machine, options, plan, how);
    if (both.ok()) {
        both->recompute_ns -= first->recompute_ns;
        both->slowed_ns -= first->slowed_ns;
        both->stall_need_ns -= first->stall_need_ns;
        both->stall_room_ns -= first->stall_room_ns;
        both->stored_bytes -= first->stored_bytes;
        both->loaded_bytes -= first->loaded_bytes;
        both->recomputed_bytes -= first->recomputed_bytes;
        both->compute_ns -= first->compute_ns;
        both->device_byte_ns -= first->device_byte_ns;
        both->value_byte_ns -= first->value_byte_ns;
        // With the program it ends, not with the last copy.
        both->total_ns = both->compute_ns + both->recompute_ns + both->slowed_ns +
                         both->stall_need_ns + both->stall_room_ns;
    }
    return both;
}

Foretold foretell(
    std::string const& policy, Trace const& trace, Machine const& machine, Budgets const& budgets
) {
    Foretold row{.policy = policy, .device_bytes = budgets.device_bytes};
    Result<std::optional<Plan>> const plan = plan_of(policy, trace, machine, budgets);
    if (!plan.ok()) {
        row.refusal = why_no_plan(plan.error());
        return row;
    }
    Policy const& known = *find_policy(policy);
    ChooserKind const chooser = *plan         ? ChooserKind::planned
                                : known.moves ? ChooserKind::online
                                              : ChooserKind::keep_all;
    Result<SimulationResult> const step = simulate_steady_step(
        trace,
        machine,
        options_of(chooser, known.eviction, budgets),
        *plan ? &**plan : nullptr,
        has_recipes(known, *plan, budgets)
    );
    if (!step.ok() || !step->ok) {
        row.refusal = step.ok() ? step->refusal : step.error().message();
        return row;
    }
    row.step_ns = step->total_ns;
    row.peak_bytes = step->peak_bytes[static_cast<std::size_t>(Pool::device)];
    row.average_bytes = average_of(step->device_byte_ns, step->total_ns);
    row.average_saved_bytes = average_of(step->value_byte_ns, step->total_ns);
    row.stored_bytes = step->stored_bytes;
    row.loaded_bytes = step->loaded_bytes;
    row.recomputed_bytes = step->recomputed_bytes;
    row.stall_ns = step->stall_need_ns + step->stall_room_ns;
    row.bound_step_ns = *plan ? (*plan)->bound_step_ns : 0;
    row.lossy = *plan && is_lossy(**plan);
    return row;
}

std::int64_t smallest_budget(
    std::string const& policy,
    Trace const& trace,
    Machine const& machine,
    Budgets const& others,
    std::int64_t most_bytes
) {
    bool const records_first = find_policy(policy)->plans_in_session();
    auto const runs = [&](std::int64_t pages) {
        Budgets budgets = others;
        budgets.device_bytes = pages * kPageBytes;
        return foretell(policy, trace, machine, budgets).refusal.empty() &&
               (!records_first || foretell("online", trace, machine, budgets).refusal.empty());
    };
    std::int64_t too_few = 0;
    std::int64_t enough = round_up(most_bytes, kPageBytes) / kPageBytes;
    if (!runs(enough)) {
        return 0;
    }
    // To a thousandth: a page more or less is no answer to "which budget".
    while (enough - too_few > std::max<std::int64_t>(1, enough / 1000)) {
        std::int64_t const middle = too_few + (enough - too_few) / 2;
        (runs(middle) ? enough : too_few) = middle;
    }
    return enough * kPageBytes;
}

std::string note_of_recipes(Trace const& trace, std::vector<std::string> const& policies) {
    bool const has_recipe =
        std::any_of(trace.values.begin(), trace.values.end(), [](TraceValue const& value) {
            return value.recipe.has_value();
        });
    std::string names;
    for (std::string const& policy : policies) {
        bool const is_meant = !has_recipe && find_policy(policy)->recomputes;
        names += is_meant ? (names.empty() ? "" : ", ") + policy : "";
    }
    return names.empty() ? ""
                         : "nothing can be made again by " + names + ": " + std::string(kNoRecipes);
}

Result<Comparison> compare(
    Trace const& trace,
    Machine const& machine,
    std::vector<std::string> const& policies,
    std::vector<std::int64_t> const& budgets,
    Budgets const& others
) {
    std::vector<std::string> names = policies;
    if (names.empty()) {
        names.emplace_back("online");
        for (Policy const& policy : spillway::policies()) {
            if (policy.make_plan != nullptr || policy.eviction != EvictionRule::next_use) {
                names.emplace_back(policy.name);
            }
        }
    }
    for (std::string const& name : names) {
        if (Result<PolicyChoice> const choice = parse_policy_choice(name); !choice.ok()) {
            return choice.error();
        }
    }
    Result<Comparison> all = comparison_of(trace, machine, others, "online", names);
    if (!all.ok()) {
        return all;
    }
    all->budgets = budgets;
    for (int quarter = budgets.empty() ? 3 : 0; quarter > 0; --quarter) {
        std::int64_t const peak_bytes = most_bytes(*all, machine) - kPageBytes;
        std::int64_t const rest = std::max<std::int64_t>(0, peak_bytes - all->floor_bytes);
        add_budget(*all, all->floor_bytes + rest * quarter / 4);
    }
    add_note_of_capacity(*all, machine);
    fill(*all, trace, machine, names, others);
    return all;
}

Result<Comparison> fit(
    Trace const& trace, Machine const& machine, std::string const& policy, Budgets const& others
) {
    if (Result<PolicyChoice> const choice = parse_policy_choice(policy); !choice.ok()) {
        return choice.error();
    }
    Result<Comparison> all = comparison_of(trace, machine, others, policy, {policy});
    if (!all.ok()) {
        return all;
    }
    if (all->floor_bytes == 0) {
        Budgets budgets = others;
        budgets.device_bytes = all->peak_bytes + kPageBytes;
        return Error{
            Errc::out_of_memory,
            foretell(policy, trace, machine, budgets).refusal,
            "policy " + policy};
    }
    for (int i = kFitBudgets; i >= 0; --i) {
        std::int64_t const rest = most_bytes(*all, machine) - all->floor_bytes;
        add_budget(*all, all->floor_bytes + rest * i / kFitBudgets);
    }
    add_note_of_floor(*all, policy);
    add_note_of_capacity(*all, machine);
    fill(*all, trace, machine, {policy}, others);
    return all;
}

}  // namespace spillway
