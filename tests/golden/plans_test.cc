// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What each policy of the catalogue decides for one small step, on a line of plans.jsonl: a change
// of any plan shows in the diff of that file.

#include "base/units.h"
#include "golden/golden.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "policy/catalog.h"
#include "policy/planner.h"
#include "policy/solver.h"
#include "trace/trace.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace spillway {
namespace {

/// The peak without moves is 160 MiB, of which 12 to 24 are no value's. The link to the host takes
/// longer for all of it than the operators take.
constexpr Budgets kBudgets{.device_bytes = 80_MiB, .host_bytes = 512_MiB, .nvme_bytes = 1_GiB};

/// A line for each policy, by its name.
using Lines = std::map<std::string, std::string>;

/// A value's place in the trace, for a slot that a fate names.
using Places = std::map<Slot, std::size_t>;

/// "k": kept, "h": to the host, "n": to NVMe, "r": made again, "-": the plan leaves it to the
/// chooser at run time. ">5": leaves once value 5 was saved, "<2": returns when value 2 is needed.
/// "=affine8": by that codec.
std::string short_fate(Plan const& plan, Slot const& slot, Places const& places) {
    auto const found = plan.fates.find(slot);
    if (found == plan.fates.end()) {
        return "-";
    }
    Fate const& fate = found->second;
    std::string text = fate.kind == FateKind::keep        ? "k"
                       : fate.kind == FateKind::recompute ? "r"
                       : fate.pool == Pool::host          ? "h"
                                                          : "n";
    if (!fate.codec.empty()) {
        text += "=" + fate.codec;
    }
    if (fate.leaves) {
        text += fmt::format(">{}", places.at(*fate.leaves));
    }
    if (fate.returns) {
        text += fmt::format("<{}", places.at(*fate.returns));
    }
    return text;
}

std::string line_of(Policy const& policy, Trace const& trace, Machine const& machine) {
    Result<Plan> const plan = make_plan({std::string(policy.name), {}}, trace, machine, kBudgets);
    if (!plan.ok()) {
        return fmt::format(
            R"({{"policy":"{}","refusal":"{}"}})", policy.name, plan.error().message()
        );
    }
    Places places;
    for (std::size_t i = 0; i < trace.values.size(); ++i) {
        places.emplace(trace.values[i].slot, i);
    }
    std::string fates;
    for (TraceValue const& value : trace.values) {
        fates += (fates.empty() ? "" : " ") + short_fate(*plan, value.slot, places);
    }
    return fmt::format(
        R"({{"policy":"{}","step_ns":{},"peak_bytes":{},"fates":"{}"}})",
        policy.name,
        plan->predicted_step_ns,
        plan->predicted_peak_bytes,
        fates
    );
}

/// In the order of the catalogue.
std::string plans_made_anew() {
    Result<Trace> const trace = parse_trace(golden("planned_trace.json"));
    Result<Machine> const machine = parse_machine(golden("machine.json"));
    EXPECT_TRUE(trace.ok() && machine.ok());
    std::string text;
    for (Policy const& policy : policies()) {
        if (policy.make_plan != nullptr && trace.ok() && machine.ok()) {
            text += line_of(policy, *trace, *machine) + "\n";
        }
    }
    return text;
}

Lines lines_by_policy(std::string const& text) {
    Lines lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) {
        std::string const head = R"({"policy":")";
        bool const is_plan = line.substr(0, head.size()) == head;
        EXPECT_TRUE(is_plan) << line;
        std::string const name =
            line.substr(head.size(), line.find('"', head.size()) - head.size());
        EXPECT_TRUE(lines.emplace(name, line).second) << name << " has two lines";
    }
    return lines;
}

TEST(GoldenPlans, each_policy_makes_the_plan_that_it_made) {
    std::string const anew = plans_made_anew();
    Lines expected = lines_by_policy(golden("plans.jsonl"));
    Lines made = lines_by_policy(anew);
    if (has_solver()) {  // whose plans may be others
        for (char const* const name : {"auto", "str"}) {
            EXPECT_EQ(made.erase(name), expected.erase(name)) << name;
        }
    }
    for (auto const& [name, line] : made) {
        EXPECT_EQ(expected[name], line) << name;
        expected.erase(name);
    }
    for (auto const& [name, line] : expected) {
        ADD_FAILURE() << name << " makes no plans; its line goes: " << line;
    }
    if (!HasFailure() && !has_solver()) {
        EXPECT_EQ(golden("plans.jsonl"), anew) << "the order of lines is the catalogue's";
    }
    if (HasFailure()) {
        std::string const file = build_folder() + "/plans.jsonl";
        std::ofstream(file) << anew;
        ADD_FAILURE() << "if the plans are meant to be so: cp " << file << " " << source_folder()
                      << "/tests/golden/plans.jsonl"
                      << (has_solver() ? ", but from build/asan, which has no solver" : "");
    }
}

TEST(GoldenPlans, the_step_does_not_fit_without_a_plan) {
    Result<Trace> const trace = parse_trace(golden("planned_trace.json"));
    ASSERT_TRUE(trace.ok());
    EXPECT_EQ(to_json_text(*trace), golden("planned_trace.json"));
    EXPECT_GT(peak_without_moves(*trace), kBudgets.device_bytes);
}

/// The file would show little if they did not.
TEST(GoldenPlans, most_policies_decide_differently) {
    std::set<std::string> plans;
    for (auto const& [name, line] : lines_by_policy(golden("plans.jsonl"))) {
        plans.insert(line.substr(line.find(',')));
    }
    EXPECT_GE(plans.size(), 10U);
}

}  // namespace
}  // namespace spillway
