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
#include <iostream>
#include <map>
#include <string>
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

}  // namespace
}  // namespace spillway::fuzz
