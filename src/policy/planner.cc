// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/planner.h"

#include "base/assert.h"
#include "plan/planned_codec.h"
#include "policy/catalog.h"
#include "policy/feedback.h"
#include "policy/forecast.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

Error wrong(std::string what) {
    return {Errc::bad_argument, std::move(what), "policy"};
}

std::string planning_policies() {
    std::string names;
    for (Policy const& policy : policies()) {
        if (policy.make_plan != nullptr) {
            names += (names.empty() ? "" : ", ") + std::string(policy.name);
        }
    }
    return names;
}

std::string parameters_of(Policy const& policy) {
    std::string names;
    for (PolicyParameter const& parameter : policy.parameters) {
        names += (names.empty() ? "" : ", ") + std::string(parameter.name);
    }
    return names.empty() ? "it has none" : "it has " + names;
}

/// 8, 0.5: no digits that say nothing.
std::string to_text(double number) {
    char text[32];
    auto const end = std::to_chars(text, text + sizeof(text), number).ptr;
    return {text, end};
}

Result<void> take_parameter(Policy const& policy, std::string_view item, PolicyChoice& choice) {
    std::size_t const equals = item.find('=');
    std::string const name(item.substr(0, equals));
    auto const* const known = std::find_if(
        policy.parameters.data(),
        policy.parameters.data() + policy.parameters.size(),
        [&](PolicyParameter const& parameter) { return parameter.name == name; }
    );
    std::string const who = "'" + choice.name + "': ";
    if (known == policy.parameters.data() + policy.parameters.size()) {
        return wrong(who + "no parameter '" + name + "'; " + parameters_of(policy));
    }
    std::string_view const text =
        equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    double number = 0;
    auto const [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failure != std::errc{} || end != text.data() + text.size() || !(number >= known->least) ||
        !(number <= known->most) || number != std::floor(number)) {
        auto const whole = [](double limit) {
            return std::to_string(static_cast<std::int64_t>(limit));
        };
        return wrong(
            who + name + " is '" + std::string(text) + "', not a whole number from " +
            whole(known->least) + " to " + whole(known->most)
        );
    }
    if (!choice.parameters.emplace(name, number).second) {
        return wrong(who + name + " is given twice");
    }
    return {};
}

Result<void> check_pools(Policy const& policy, Machine const& machine, Budgets const& budgets) {
    if (policy.needs_pool() && !budgets.has_pool()) {
        return Error{
            Errc::unsupported,
            "it moves, and neither a host nor an NVMe budget is given; auto and rotor need neither",
            ""};
    }
    return check_budgets(machine, budgets);
}

/// A slot that two values have.
std::optional<Slot> saved_twice(Trace const& trace) {
    std::set<Slot> known;
    for (TraceValue const& value : trace.values) {
        if (!known.insert(value.slot).second) {
            return value.slot;
        }
    }
    return std::nullopt;
}

/// A plan that is valid and fits, and what it would wait for.
struct Judged {
    Plan plan;
    ReturnWaits waits_ns;
};

Result<Judged> judge(Policy const& policy, PolicyChoice const& choice, PlanRequest const& request) {
    Result<Plan> plan = policy.make_plan(request);
    if (!plan.ok()) {
        return Error{plan.error().code, plan.error().what, "policy " + choice.name};
    }
    // A policy that has others' plans says whose.
    plan->policy = to_text(choice) + (plan->policy.empty() ? "" : " (" + plan->policy + ")");
    plan->device_bytes = request.budgets.device_bytes;
    if (Result<void> const fine = validate(*plan, request.trace, request.machine); !fine) {
        return Error{Errc::broken_promise, fine.error().message(), "policy " + choice.name};
    }
    if (is_lossy(*plan) && !policy.is_lossy) {
        return Error{
            Errc::broken_promise, "it is exact, and its plan loses", "policy " + choice.name};
    }
    Result<Forecast> costs = forecast(request, request.budgets, *plan);
    if (!costs.ok()) {
        return costs.error();
    }
    if (!costs->fits) {
        return Error{Errc::out_of_memory, costs->refusal, "policy " + to_text(choice)};
    }
    plan->predicted_step_ns = costs->step_ns;
    plan->predicted_peak_bytes = costs->peak_bytes;
    if (plan->bound_step_ns > plan->predicted_step_ns) {
        return Error{
            Errc::broken_promise, "the step is foretold below its bound", "policy " + choice.name};
    }
    return Judged{std::move(plan).value(), std::move(costs->waits_ns)};
}

/// Rounds of feedback in virtual time; leaves the quickest plan in `judged`.
void learn(Policy const& policy, PolicyChoice const& choice, PlanRequest request, Judged& judged) {
    Feedback feedback(judged.plan);
    Judged present = judged;
    while (!feedback.is_done()) {
        std::optional<Plan> next = feedback.took(
            present.plan.predicted_step_ns,
            present.waits_ns,
            [&](PlanRan const& ran) {
                request.ran = &ran;
                Result<Judged> mended = judge(policy, choice, request);
                if (!mended.ok()) {
                    return Result<Plan>(mended.error());
                }
                present = std::move(mended).value();
                return Result<Plan>(present.plan);
            }
        );
        if (next) {
            judged.plan = *std::move(next);
        }
    }
}

}  // namespace

Result<void> check_budgets(Machine const& machine, Budgets const& budgets) {
    auto const has = [&](Pool pool, Lane out, Lane in) {
        MachineTier const* const tier = find_tier(machine, pool);
        return tier != nullptr && tier->capacity_bytes > 0 && link_of(machine, out) != nullptr &&
               link_of(machine, in) != nullptr;
    };
    if (budgets.host_bytes > 0 && !has(Pool::host, Lane::copy_out, Lane::copy_in)) {
        return Error{
            Errc::unsupported,
            "a host budget is given, and the machine has no host memory or no link both ways",
            ""};
    }
    if (budgets.nvme_bytes > 0 && !has(Pool::nvme, Lane::nvme_write, Lane::nvme_read)) {
        return Error{
            Errc::unsupported,
            "an NVMe budget is given, and the machine has no NVMe or no link both ways",
            ""};
    }
    return {};
}

Result<PolicyChoice> parse_policy_choice(std::string_view text) {
    std::size_t const colon = text.find(':');
    PolicyChoice choice{.name = std::string(text.substr(0, colon))};
    Policy const* const policy = find_policy(choice.name);
    if (policy == nullptr) {
        return wrong("no policy '" + choice.name + "'; there are " + policy_names());
    }
    if (policy->make_plan == nullptr && colon == std::string_view::npos) {
        return choice;
    }
    if (policy->make_plan == nullptr) {
        return wrong(
            "'" + choice.name + "' makes no plan and has no parameters; those that do are " +
            planning_policies()
        );
    }
    std::string_view rest = colon == std::string_view::npos ? "" : text.substr(colon + 1);
    while (colon != std::string_view::npos) {
        std::size_t const comma = rest.find(',');
        if (Result<void> const fine = take_parameter(*policy, rest.substr(0, comma), choice);
            !fine) {
            return fine.error();
        }
        if (comma == std::string_view::npos) {
            break;
        }
        rest.remove_prefix(comma + 1);
    }
    return choice;
}

std::string to_text(PolicyChoice const& choice) {
    std::string text = choice.name;
    char separator = ':';
    for (auto const& [name, number] : choice.parameters) {
        text += separator + name + "=" + to_text(number);
        separator = ',';
    }
    return text;
}

std::string why_no_plan(Error const& error) {
    return error.where.rfind("policy ", 0) == 0 ? error.what : error.message();
}

double PlanRequest::parameter(std::string_view name) const {
    auto const found = parameters.find(name);
    SPILLWAY_ASSERT(found != parameters.end(), "a policy reads what it declares");
    return found->second;
}

Result<Plan> make_plan(
    PolicyChoice const& choice,
    Trace const& trace,
    Machine const& machine,
    Budgets const& budgets,
    PlanRan const* ran,
    Face face
) {
    Policy const* const policy = find_policy(choice.name);
    if (policy == nullptr || policy->make_plan == nullptr) {
        return wrong(
            "'" + choice.name +
            "' makes no plan; `spillway compare` and `fit` foretell it without one; those that "
            "make plans are " +
            planning_policies()
        );
    }
    if (Result<void> const fine = validate(trace); !fine) {
        return fine.error();
    }
    if (Result<void> const fine = validate(machine); !fine) {
        return fine.error();
    }
    if (Result<void> const fine = check_pools(*policy, machine, budgets); !fine) {
        return Error{fine.error().code, fine.error().what, "policy " + choice.name};
    }
    if (std::optional<Slot> const twice = saved_twice(trace)) {
        return Error{
            Errc::unsupported,
            "the step saves " + twice->producer + " number " + std::to_string(twice->occurrence) +
                " twice: it has several forwards, of which no plan is made",
            "policy " + choice.name};
    }
    PlanRequest request{trace, machine, budgets, choice.parameters};
    for (PolicyParameter const& parameter : policy->parameters) {
        request.parameters.emplace(parameter.name, parameter.otherwise);
    }
    request.ran = ran;
    request.face = face;
    Result<Judged> judged = judge(*policy, choice, request);
    if (!judged.ok()) {
        return judged.error();
    }
    if (policy->learns && ran == nullptr) {
        learn(*policy, choice, request, *judged);
    }
    return std::move(judged->plan);
}

}  // namespace spillway
