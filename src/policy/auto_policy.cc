// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/auto_policy.h"

#include "policy/catalog.h"
#include "policy/improve.h"
#include "policy/lower_bound.h"
#include "policy/observed_plan.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway {

namespace {

constexpr std::size_t kImproved = 3;
constexpr std::size_t kAskedAgain = 2;
constexpr std::array<std::int64_t, 4> kOtherBudgets{88, 95, 105, 112};  ///< percent

/// Quick to ask, and often as quick as can be, which ends the search.
constexpr std::array<std::string_view, 4> kAskedFirst{
    "largest_first", "offload_all", "optimal_offload", "capuchin"};

/// Of a plan's simulations, values times tries: a choice, so that a thousand values take seconds.
constexpr std::size_t kValuesTried = 20'000;
constexpr std::size_t kFewestTries = 8;
constexpr std::size_t kMostTries = 96;
/// The best are asked again for steps of at most so many values.
constexpr std::size_t kMostAskedAgain = 500;

class AutoSearch {
  public:
    explicit AutoSearch(PlanRequest const& request)
        : request_(request), bound_ns_(lower_bound_ns(request)) {}

    Result<Plan> run() {
        ask_all();
        if (found_.empty()) {
            return Error{Errc::out_of_memory, "no plan fits; under online: " + refusal_, ""};
        }
        sort_found();
        ask_again();
        sort_found();
        found_.resize(std::min(found_.size(), kImproved));
        JudgedPlan best = improved(request_, found_, {.tries = tries(), .least_ns = bound_ns_});
        bool const is_new = best.plan.fates != found_.front().plan.fates;
        best.plan.policy = best.whose + (is_new ? ", improved" : "");
        best.plan.bound_step_ns = bound_ns_;
        return std::move(best.plan);
    }

  private:
    [[nodiscard]] bool is_over() const {
        return std::any_of(found_.begin(), found_.end(), [&](JudgedPlan const& each) {
            return each.forecast.costs.step_ns <= bound_ns_;
        });
    }

    void sort_found() {
        std::stable_sort(
            found_.begin(),
            found_.end(),
            [](JudgedPlan const& one, JudgedPlan const& other) { return one.is_better_than(other); }
        );
    }

    [[nodiscard]] std::size_t tries() const {
        auto const given = static_cast<std::size_t>(request_.parameter("tries"));
        std::size_t const values = std::max<std::size_t>(1, request_.trace.values.size());
        return given > 0 ? given : std::clamp(kValuesTried / values, kFewestTries, kMostTries);
    }

    void take(std::string whose, Plan plan) {
        plan.bound_step_ns = 0;
        if (auto one = judged(request_, std::move(whose), std::move(plan), &refusal_)) {
            found_.push_back(*std::move(one));
        }
    }

    void ask_all() {
        Plan kept;
        for (TraceValue const& value : request_.trace.values) {
            kept.fates.try_emplace(value.slot);
        }
        take("keep_all", std::move(kept));
        if (!is_over()) {
            take("online", {});
        }
        std::string const of_online = refusal_;
        std::vector<Policy const*> order;
        for (Policy const& policy : policies()) {
            order.push_back(&policy);
        }
        std::stable_partition(order.begin(), order.end(), [](Policy const* policy) {
            return std::count(kAskedFirst.begin(), kAskedFirst.end(), policy->name) > 0;
        });
        for (Policy const* const policy : order) {
            if (!is_over() && auto_asks(*policy, request_)) {
                ask(*policy, request_.budgets);
            }
        }
        refusal_ = of_online;
    }

    /// The authors' rules count bytes and times each in its own way: what was made for a little
    /// more or less memory is often quicker.
    void ask_again() {
        if (request_.trace.values.size() > kMostAskedAgain) {
            return;
        }
        std::vector<Policy const*> best;
        for (JudgedPlan const& each : found_) {
            Policy const* const policy = find_policy(each.whose);
            bool const is_new = std::count(best.begin(), best.end(), policy) == 0;
            if (policy->make_plan != nullptr && is_new && best.size() < kAskedAgain) {
                best.push_back(policy);
            }
        }
        for (Policy const* const policy : best) {
            for (std::int64_t const percent : kOtherBudgets) {
                Budgets budgets = request_.budgets;
                budgets.device_bytes = budgets.device_bytes / 100 * percent;
                if (!is_over() && budgets.device_bytes > 0) {
                    ask(*policy, budgets);
                }
            }
        }
    }

    void ask(Policy const& policy, Budgets const& budgets) {
        PlanRequest request{request_.trace, request_.machine, budgets, {}};
        request.face = request_.face;
        for (PolicyParameter const& parameter : policy.parameters) {
            request.parameters.emplace(parameter.name, parameter.otherwise);
        }
        Result<Plan> plan = plan_of(policy, request);
        if (plan.ok()) {
            take(std::string(policy.name), std::move(plan).value());
        }
    }

    static Result<Plan> plan_of(Policy const& policy, PlanRequest const& request) {
        if (policy.learns) {
            PolicyChoice const choice{.name = std::string(policy.name)};
            return make_plan(
                choice, request.trace, request.machine, request.budgets, nullptr, request.face
            );
        }
        return policy.make_plan == nullptr ? observed_plan(request, policy.eviction)
                                           : policy.make_plan(request);
    }

    PlanRequest const& request_;
    std::int64_t const bound_ns_;
    std::vector<JudgedPlan> found_;
    std::string refusal_;
};

}  // namespace

bool auto_asks(Policy const& policy, PlanRequest const& request) {
    bool const is_small = request.trace.values.size() <= kMostSearchedValues;
    bool const has_plan = policy.make_plan != nullptr || policy.eviction != EvictionRule::next_use;
    return has_plan && policy.make_plan != &plan_auto && !policy.is_lossy &&
           (request.budgets.has_pool() || !policy.moves) &&
           (is_small || policy.name != "swapadvisor");
}

Result<Plan> plan_auto(PlanRequest const& request) {
    return AutoSearch(request).run();
}

}  // namespace spillway
