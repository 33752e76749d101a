// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Every policy that makes plans, on random steps and machines: a plan that is valid and foretold,
// or an error that says why; never a crash, never a broken promise.

#include "fuzz/fuzz_main.h"
#include "fuzz/random_case.h"
#include "policy/catalog.h"
#include "policy/step_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace spillway::fuzz {
namespace {

/// Values in repeated modules, some of them of convolutions, so that policies find layers.
void give_modules(Dice& dice, Trace& trace) {
    std::int64_t const of_layer = dice.in(1, 4);
    for (std::size_t i = 0; i < trace.values.size(); ++i) {
        std::int64_t const layer = static_cast<std::int64_t>(i) / of_layer;
        trace.values[i].module = "h." + std::to_string(layer);
        if (dice.percent(30)) {
            trace.values[i].tensor_class = TensorClass::convolution_input;
        }
    }
}

/// Values of types and classes that codecs take, or do not.
void give_classes(Dice& dice, Trace& trace) {
    for (TraceValue& value : trace.values) {
        value.dtype = dice.percent(50) ? "float32" : dice.percent(50) ? "bfloat16" : "int64";
        value.tensor_class = static_cast<TensorClass>(dice.in(0, kTensorClasses - 1));
    }
}

/// Of values that were saved before it.
void give_recipes(Dice& dice, Trace& trace) {
    for (std::size_t i = 1; i < trace.values.size(); ++i) {
        if (dice.percent(30)) {
            continue;
        }
        RecipeShape recipe;
        recipe.calls = dice.in(1, 4);
        recipe.duration_ns = dice.in(0, 500000);
        recipe.transient_bytes = dice.percent(50) ? 0 : dice.in(1, 8) * 512;
        auto const last = static_cast<std::int64_t>(i) - 1;
        recipe.sources.emplace_back(dice.in(std::max<std::int64_t>(0, last - 3), last));
        trace.values[i].recipe = std::move(recipe);
    }
}

/// What a policy makes its plan of.
struct PolicyCase {
    Trace trace;
    Machine machine;
    Budgets budgets;
};

PolicyCase policy_case(std::uint64_t seed) {
    Dice dice(seed);
    PolicyCase subject{.trace = random_trace(dice), .machine = {}, .budgets = {}};
    if (dice.percent(70)) {
        give_modules(dice, subject.trace);
    }
    if (dice.percent(60)) {
        give_recipes(dice, subject.trace);
    }
    subject.machine = random_machine(dice);
    if (dice.percent(70)) {
        subject.machine.device.memory_bytes_per_s = static_cast<double>(dice.in(1, 10'000)) * 1e7;
        give_classes(dice, subject.trace);
    }
    std::int64_t const peak = std::max<std::int64_t>(peak_without_moves(subject.trace), 4096);
    subject.budgets = {
        .device_bytes = dice.percent(20) ? 0 : peak * dice.in(40, 110) / 100,
        .host_bytes = dice.percent(50) ? 0 : peak * dice.in(10, 300) / 100,
        .nvme_bytes = peak * dice.in(10, 300) / 100};
    return subject;
}

TEST(PolicyFuzz, each_policy_makes_a_valid_plan_or_says_why_not) {
    std::map<std::string_view, std::int64_t> made;
    std::int64_t tried = 0;
    for (std::uint64_t const seed : seeds(400)) {
        PolicyCase const subject = policy_case(seed);
        auto const& [trace, machine, budgets] = subject;
        std::int64_t const bound_ns = step_bound_ns({trace, machine, budgets, {}});
        ++tried;
        for (Policy const& policy : policies()) {
            if (policy.make_plan == nullptr) {
                continue;
            }
            Result<Plan> const plan =
                make_plan({std::string(policy.name), {}}, trace, machine, budgets);
            if (!plan.ok()) {
                ASSERT_NE(plan.error().code, Errc::broken_promise)
                    << rerun(seed) << plan.error().message();
                ASSERT_FALSE(plan.error().what.empty()) << rerun(seed);
                continue;
            }
            ++made[policy.name];
            ASSERT_TRUE(
                budgets.device_bytes == 0 || plan->predicted_peak_bytes <= budgets.device_bytes
            ) << rerun(seed)
              << policy.name;
            // Where values shrink, fewer bytes cross the link.
            ASSERT_TRUE(policy.is_lossy || bound_ns <= plan->predicted_step_ns)
                << rerun(seed) << policy.name;
            ASSERT_TRUE(validate(*plan, trace, machine).ok()) << rerun(seed) << policy.name;
            Result<Plan> const read = parse_plan(to_json_text(*plan));
            ASSERT_TRUE(read.ok()) << rerun(seed) << policy.name;
            ASSERT_EQ(*read, *plan) << rerun(seed) << policy.name;
        }
    }
    for (Policy const& policy : policies()) {
        if (policy.make_plan != nullptr) {
            std::int64_t const count = made[policy.name];
            EXPECT_TRUE(one_seed() || count * 20 > tried) << policy.name << " made " << count;
            std::cout << policy.name << " " << count << " of " << tried << "\n";
        }
    }
}

TEST(PolicyFuzz, auto_is_never_slower_than_any_other) {
    std::int64_t compared = 0;
    for (std::uint64_t const seed : seeds(100)) {
        auto const [trace, machine, budgets] = policy_case(seed);
        Result<Plan> const ours = make_plan({"auto", {}}, trace, machine, budgets);
        std::int64_t const bound_ns = ours.ok() ? ours->bound_step_ns : 0;
        for (Policy const& policy : policies()) {
            if (policy.make_plan == nullptr) {
                continue;
            }
            Result<Plan> const other =
                make_plan({std::string(policy.name), {}}, trace, machine, budgets);
            if (!other.ok()) {
                continue;
            }
            ++compared;
            ASSERT_TRUE(ours.ok()) << rerun(seed) << policy.name << ours.error().message();
            ASSERT_LE(ours->predicted_step_ns, other->predicted_step_ns)
                << rerun(seed) << policy.name;
            ASSERT_GE(other->predicted_step_ns, bound_ns) << rerun(seed) << policy.name;
        }
    }
    EXPECT_TRUE(one_seed() || compared > 0);
    std::cout << compared << " plans of others compared\n";
}

/// Breaks one rule of a valid plan at one of its slots.
struct Break {
    std::string_view rule;  ///< as the refusal says it
    /// False: this plan has nothing to break there.
    bool (*make)(Dice& dice, Plan& plan, Slot const& slot, PolicyCase& subject);
};

Slot unknown_slot(Slot slot) {
    slot.occurrence += 1'000'000;
    return slot;
}

/// Of that machine: somewhere.
Fate move_on(Machine const& machine) {
    MachineTier const* const host = find_tier(machine, Pool::host);
    bool const has_host = host != nullptr && host->capacity_bytes > 0;
    return {.kind = FateKind::move, .pool = has_host ? Pool::host : Pool::nvme};
}

/// The points where a slot's value is saved last, and needed first after that; -1: never.
std::pair<std::int64_t, std::int64_t> times_of(Trace const& trace, Slot const& slot) {
    std::int64_t saved = -1;
    std::int64_t needed = -1;
    for (std::int64_t at = 0; at < std::ssize(trace.points); ++at) {
        TracePoint const& point = trace.points[static_cast<std::size_t>(at)];
        auto const is_it = [&](ValueId id) { return trace.values[id.index()].slot == slot; };
        if (needed < 0 && std::ranges::any_of(point.needed, is_it)) {
            needed = at;
        }
        if (std::ranges::any_of(point.saved, is_it)) {
            saved = at;
            needed = -1;
        }
    }
    return {saved, needed};
}

TraceValue const& value_of(Trace const& trace, Slot const& slot) {
    return *std::ranges::find(trace.values, slot, &TraceValue::slot);
}

constexpr std::array kBreaks{
    Break{
        "the trace has no value at",
        [](Dice&, Plan& plan, Slot const& slot, PolicyCase&) {
            plan.fates[unknown_slot(slot)] = {};
            return true;
        }},
    Break{
        "is kept, and has a time to leave or return",
        [](Dice& dice, Plan& plan, Slot const& slot, PolicyCase&) {
            plan.fates[slot] = {};
            (dice.percent(50) ? plan.fates[slot].leaves : plan.fates[slot].returns) = slot;
            return true;
        }},
    Break{
        "which the trace lacks",
        [](Dice&, Plan& plan, Slot const& slot, PolicyCase& subject) {
            plan.fates[slot] = move_on(subject.machine);
            plan.fates[slot].leaves = unknown_slot(slot);
            return true;
        }},
    Break{
        "before it is saved",
        [](Dice&, Plan& plan, Slot const& slot, PolicyCase& subject) {
            auto const earlier = std::ranges::find_if(plan.fates, [&](auto const& entry) {
                return times_of(subject.trace, entry.first).first <
                       times_of(subject.trace, slot).first;
            });
            if (earlier == plan.fates.end()) {
                return false;
            }
            plan.fates[slot] = move_on(subject.machine);
            plan.fates[slot].leaves = earlier->first;
            return true;
        }},
    Break{
        "is made again, and has a time to return",
        [](Dice&, Plan& plan, Slot const& slot, PolicyCase&) {
            plan.fates[slot] = {.kind = FateKind::recompute, .returns = slot};
            return true;
        }},
    Break{
        "is made again, and the trace has no recipe of it",
        [](Dice&, Plan& plan, Slot const& slot, PolicyCase& subject) {
            plan.fates[slot] = {.kind = FateKind::recompute};
            return !value_of(subject.trace, slot).recipe;
        }},
    Break{
        "moves to the device, where it is",
        [](Dice&, Plan& plan, Slot const& slot, PolicyCase&) {
            plan.fates[slot] = {.kind = FateKind::move, .pool = Pool::device};
            return true;
        }},
    Break{
        "which the machine has not",
        [](Dice&, Plan& plan, Slot const& slot, PolicyCase& subject) {
            plan.fates[slot] = {.kind = FateKind::move, .pool = Pool::host};
            std::erase_if(subject.machine.tiers, [](MachineTier const& tier) {
                return tier.pool == Pool::host;
            });
            return true;
        }},
    Break{
        "which is never needed",
        [](Dice&, Plan& plan, Slot const& slot, PolicyCase& subject) {
            plan.fates[slot] = move_on(subject.machine);
            plan.fates[slot].returns = unknown_slot(slot);
            return true;
        }},
    Break{
        "which is needed after it",
        [](Dice&, Plan& plan, Slot const& slot, PolicyCase& subject) {
            std::int64_t const needed = times_of(subject.trace, slot).second;
            auto const later = std::ranges::find_if(plan.fates, [&](auto const& entry) {
                return times_of(subject.trace, entry.first).second > needed;
            });
            if (needed < 0 || later == plan.fates.end()) {
                return false;
            }
            plan.fates[slot] = move_on(subject.machine);
            plan.fates[slot].returns = later->first;
            return true;
        }},
    Break{
        "has a codec, and does not move",
        [](Dice&, Plan& plan, Slot const& slot, PolicyCase&) {
            plan.fates[slot] = {.codec = "affine8"};
            return true;
        }},
    Break{
        "no_codec",
        [](Dice&, Plan& plan, Slot const& slot, PolicyCase& subject) {
            plan.fates[slot] = move_on(subject.machine);
            plan.fates[slot].codec = "no_codec";
            return true;
        }},
    Break{
        "is not known",
        [](Dice& dice, Plan& plan, Slot const&, PolicyCase&) {
            plan.version += static_cast<std::int32_t>(dice.in(1, 9));
            return true;
        }},
    Break{
        "its device budget is below 0",
        [](Dice& dice, Plan& plan, Slot const&, PolicyCase&) {
            plan.device_bytes = -dice.in(1, 9);
            return true;
        }},
    Break{
        "a prediction is below 0",
        [](Dice& dice, Plan& plan, Slot const&, PolicyCase&) {
            plan.predicted_peak_bytes = -dice.in(1, 9);
            return true;
        }},
    Break{"is below its lower bound", [](Dice& dice, Plan& plan, Slot const&, PolicyCase&) {
              plan.bound_step_ns = plan.predicted_step_ns + dice.in(1, 9);
              return plan.predicted_step_ns > 0;
          }}};

TEST(PlanFuzz, each_broken_rule_is_refused_by_its_name) {
    std::map<std::string_view, std::int64_t> broken;
    // As many under a sanitizer: with a few, some rules are never broken.
    for (std::uint64_t const seed : seeds(200 * slower())) {
        PolicyCase const subject = policy_case(seed);
        char const* const policy = seed % 4 == 0 ? "recompute_all" : "offload_all";
        Result<Plan> const plan =
            make_plan({policy, {}}, subject.trace, subject.machine, subject.budgets);
        if (!plan.ok() || plan->fates.empty()) {
            continue;
        }
        Dice dice(seed);
        for (Break const& each : kBreaks) {
            Plan wrong = *plan;
            PolicyCase changed = subject;
            auto const slot = std::next(
                plan->fates.begin(), dice.in(0, static_cast<std::int64_t>(plan->fates.size()) - 1)
            );
            if (!each.make(dice, wrong, slot->first, changed)) {
                continue;
            }
            ++broken[each.rule];
            Result<void> const fine = validate(wrong, changed.trace, changed.machine);
            ASSERT_FALSE(fine.ok()) << rerun(seed) << each.rule;
            ASSERT_NE(fine.error().message().find(each.rule), std::string::npos)
                << rerun(seed) << each.rule << ": " << fine.error().message();
        }
    }
    for (Break const& each : kBreaks) {
        EXPECT_TRUE(one_seed() || broken[each.rule] > 0) << each.rule << " was never broken";
    }
}

}  // namespace
}  // namespace spillway::fuzz
