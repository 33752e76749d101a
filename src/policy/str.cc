// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/str.h"

#include "base/units.h"
#include "policy/away_times.h"
#include "policy/forecast.h"
#include "policy/link_time.h"
#include "policy/solver.h"
#include "policy/step_bound.h"
#include "policy/step_program.h"
#include "policy/transfer_times.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace spillway {

namespace {

/// Prefixes that are tried of the values that can be made again: a choice, so that a thousand
/// values take no second.
constexpr std::size_t kPrefixes = 64;

/// Values up to which the program is solved with whole ones, its nodes of branching times values,
/// and, beyond, iterations of the relaxed one: choices, so that a plan takes about a second.
constexpr std::size_t kWholeValues = 200;
constexpr std::int64_t kBranches = 1000;
constexpr std::int64_t kIterations = 20000;

/// Plans that are simulated of one value's other fates, times values, and at most: choices.
constexpr std::size_t kTrials = 2000;
constexpr std::size_t kMostTrials = 200;

/// Shares of the relaxed program from which a value is made again, that are tried.
constexpr std::array kShares{0.01, 0.25, 0.5, 0.75, 0.99};

constexpr double kDoesNotFit = std::numeric_limits<double>::infinity();

/// By value: it is made again.
using Remade = std::vector<bool>;

/// What a plan is made of. Without `moved`: the fewest that fit, those away longest first.
struct StrChoice {
    Remade remade;
    std::optional<std::vector<ValueId>> moved{};
    bool operator==(StrChoice const&) const = default;
};

/// The relaxed program: the time of a step in which some values are made again and all others may
/// be swapped, byte by byte.
class StrProgram {
  public:
    explicit StrProgram(PlanRequest const& request)
        : request_(request),
          step_(request.trace),
          rates_(transfer_rates(request.machine, request.pool())),
          held_bytes_(held_bytes()),
          leaves_(step_.values.size()) {
        for (std::size_t i = 0; i < step_.values.size(); ++i) {
            if (!step_.values[i].can_move()) {
                continue;
            }
            ValueId const id{static_cast<std::int64_t>(i)};
            candidates_.push_back(id);
            leaves_[i] = gone_by_recipe(step_, id);
            if (leaves_[i]) {
                by_cost_.push_back(id);
            }
        }
        std::stable_sort(by_cost_.begin(), by_cost_.end(), [&](ValueId one, ValueId other) {
            return cost_a_byte(one) < cost_a_byte(other);
        });
    }

    [[nodiscard]] StepView const& step() const { return step_; }
    [[nodiscard]] std::vector<ValueId> const& candidates() const { return candidates_; }

    /// What is made again in the least time.
    [[nodiscard]] Remade solve() const {
        Remade best = prefix(0);
        double least_ns = time_of(best);
        for (std::size_t count = stride(); count < by_cost_.size() + stride(); count += stride()) {
            Remade some = prefix(std::min(count, by_cost_.size()));
            double const ns = time_of(some);
            if (ns < least_ns) {
                least_ns = ns;
                best = std::move(some);
            }
        }
        return without_idle(std::move(best), least_ns);
    }

    /// The fewest of those that cost least a byte with which the step fits without a swap. None: it
    /// does not.
    [[nodiscard]] std::optional<Remade> remade_alone() const {
        std::int64_t const budget = request_.budgets.device_bytes;
        if (peak_without(step_, by_cost_) > budget) {
            return std::nullopt;
        }
        Remade fewest(step_.values.size());
        for (ValueId const id : fewest_that_fit(step_, {}, by_cost_, budget)) {
            fewest[id.index()] = true;
        }
        return fewest;
    }

    /// By a solver. None: there is none, or nothing has to leave, or it found nothing.
    [[nodiscard]] std::vector<StrChoice> by_solver() const {
        StepTerms const terms{
            .device_bytes = request_.budgets.device_bytes,
            .out_rate = rates_.out,
            .in_rate = rates_.in,
            .capacity_bytes = std::max(request_.budgets.host_bytes, request_.budgets.nvme_bytes),
            .is_whole = true};
        StepProgram const of_step = step_program(step_, terms);
        if (!has_solver() || !of_step.has_to_leave) {
            return {};
        }
        bool const is_small = candidates_.size() <= kWholeValues;
        std::optional<ProgramSolution> const found =
            is_small ? solve_whole(of_step.program, kBranches / std::ssize(candidates_))
                     : solve_relaxed(of_step.program, kIterations);
        if (!found) {
            return {};
        }
        if (!is_small) {
            return {{rounded(of_step, *found)}};
        }
        StrChoice choice{.remade = made_again_from(of_step, *found, 0.5)};
        StrChoice whole{.remade = choice.remade, .moved = std::vector<ValueId>()};
        for (ValueId const id : candidates_) {
            if (auto const column = of_step.moved[id.index()];
                column && found->columns[*column] > 0.5) {
                whole.moved->push_back(id);
            }
        }
        return {whole, choice};
    }

    /// The choice with another fate of one value; `plan` is of it. None: it has that one, or
    /// cannot.
    [[nodiscard]] std::optional<StrChoice> with(
        StrChoice choice, Plan const& plan, ValueId id, FateKind kind
    ) const {
        if (plan.fates.at(step_.slot_of(id)).kind == kind ||
            (kind == FateKind::recompute && !leaves_[id.index()])) {
            return std::nullopt;
        }
        choice.remade[id.index()] = kind == FateKind::recompute;
        choice.moved.emplace();
        for (ValueId const other : candidates_) {
            FateKind const fate = plan.fates.at(step_.slot_of(other)).kind;
            if ((other == id ? kind : fate) == FateKind::move) {
                choice.moved->push_back(other);
            }
        }
        return choice;
    }

    [[nodiscard]] Plan plan_of(StrChoice const& choice) const {
        std::vector<ValueId> away;
        std::vector<ValueId> others;
        for (ValueId const id : candidates_) {
            (choice.remade[id.index()] ? away : others).push_back(id);
        }
        std::stable_sort(others.begin(), others.end(), [&](ValueId one, ValueId other) {
            return away_ns(one) > away_ns(other);
        });
        std::vector<ValueId> const moved =
            choice.moved ? *choice.moved
                         : fewest_that_fit(step_, away, others, request_.budgets.device_bytes);
        Plan plan;
        place_transfers(step_, moved, rates_, request_.pool(), plan);
        for (ValueId const id : moved) {
            plan.fates[step_.slot_of(id)].leaves.reset();  // when an allocation fails
        }
        for (ValueId const id : away) {
            plan.fates[step_.slot_of(id)] = {.kind = FateKind::recompute};
        }
        keep_the_rest(step_, plan);
        return plan;
    }

  private:
    [[nodiscard]] RecipeShape const& recipe_of(ValueId id) const {
        return *request_.trace.values[id.index()].recipe;
    }
    [[nodiscard]] double cost_a_byte(ValueId id) const {
        return static_cast<double>(recipe_of(id).duration_ns) /
               static_cast<double>(
                   std::max<std::int64_t>(1, request_.trace.values[id.index()].size_bytes)
               );
    }
    [[nodiscard]] std::int64_t away_ns(ValueId id) const {
        return step_.begin_ns[*step_.values[id.index()].needed] - step_.free_ns(id);
    }

    /// By point, if all stays.
    [[nodiscard]] std::vector<std::int64_t> held_bytes() const {
        std::vector<std::int64_t> all;
        std::int64_t held = 0;
        auto const size = [&](ValueId id) { return request_.trace.values[id.index()].size_bytes; };
        for (TracePoint const& point : request_.trace.points) {
            for (ValueId const id : point.saved) {
                held += size(id);
            }
            all.push_back(held + point.floor_bytes);
            for (ValueId const id : point.dropped) {
                held -= size(id);
            }
        }
        return all;
    }

    /// The first of `by_cost_`.
    [[nodiscard]] Remade prefix(std::size_t count) const {
        Remade remade(step_.values.size());
        for (std::size_t i = 0; i < count; ++i) {
            remade[by_cost_[i].index()] = true;
        }
        return remade;
    }

    /// Those of which at least this share is.
    [[nodiscard]] static Remade made_again_from(
        StepProgram const& of_step, ProgramSolution const& found, double share
    ) {
        Remade remade(of_step.remade.size());
        for (std::size_t i = 0; i < remade.size(); ++i) {
            remade[i] = of_step.remade[i] && found.columns[*of_step.remade[i]] >= share;
        }
        return remade;
    }

    /// Of what the relaxed program has made again in part, as much as takes the least time.
    [[nodiscard]] Remade rounded(StepProgram const& of_step, ProgramSolution const& found) const {
        Remade best(step_.values.size());
        double least_ns = kDoesNotFit;
        for (double const share : kShares) {
            Remade some = made_again_from(of_step, found, share);
            double const ns = time_of(some);
            if (ns < least_ns) {
                least_ns = ns;
                best = std::move(some);
            }
        }
        return without_idle(std::move(best), least_ns);
    }

    /// Values that are tried together.
    [[nodiscard]] std::size_t stride() const {
        return std::max<std::size_t>(1, by_cost_.size() / kPrefixes);
    }

    /// Without each stride of values, the dearest first, without which the step takes no longer.
    [[nodiscard]] Remade without_idle(Remade remade, double least_ns) const {
        for (std::size_t end = by_cost_.size(); end > 0; end -= std::min(end, stride())) {
            Remade less = remade;
            for (std::size_t i = end - std::min(end, stride()); i < end; ++i) {
                less[by_cost_[i].index()] = false;
            }
            double const ns = less == remade ? kDoesNotFit : time_of(less);
            if (ns <= least_ns) {
                remade = std::move(less);
                least_ns = ns;
            }
        }
        return remade;
    }

    /// Recursive source tracing: by value, the point from which it has to be there again.
    [[nodiscard]] std::vector<std::size_t> back_at(Remade const& remade) const {
        std::vector<std::size_t> back(step_.values.size(), request_.trace.points.size());
        for (std::size_t i = back.size(); i-- > 0;) {
            back[i] = std::min(back[i], step_.values[i].needed.value_or(back[i]));
            if (remade[i]) {
                for (ValueId const source : request_.trace.values[i].recipe->sources) {
                    back[source.index()] = std::min(back[source.index()], back[i]);
                }
            }
        }
        return back;
    }

    /// What each point asks of the link.
    [[nodiscard]] std::vector<LinkDemand> demands_of(Remade const& remade) const {
        std::vector<TracePoint> const& points = request_.trace.points;
        std::vector<std::size_t> const back = back_at(remade);
        std::vector<LinkDemand> demands(points.size() + 1);  // differences of bytes at first
        for (ValueId const id : candidates_) {
            std::size_t const i = id.index();
            auto const bytes = static_cast<double>(request_.trace.values[i].size_bytes);
            std::size_t const leaves = (remade[i] ? *leaves_[i] : *step_.values[i].unshared) + 1;
            double LinkDemand::*const what =
                remade[i] ? &LinkDemand::excess_bytes : &LinkDemand::movable_bytes;
            if (leaves < back[i]) {
                demands[leaves].*what += bytes;
                demands[back[i]].*what -= bytes;
            }
            if (remade[i]) {
                demands[back[i]].duration_ns += static_cast<double>(recipe_of(id).duration_ns);
            }
        }
        double movable = 0;
        double gone = 0;
        for (std::size_t at = 0; at < points.size(); ++at) {
            movable += demands[at].movable_bytes;
            gone += demands[at].excess_bytes;
            double const over =
                static_cast<double>(held_bytes_[at] - request_.budgets.device_bytes) - gone;
            demands[at].movable_bytes = movable;
            demands[at].excess_bytes = std::max(0.0, over);
            demands[at].duration_ns += static_cast<double>(points[at].duration_ns);
        }
        demands.pop_back();
        return demands;
    }

    /// Of the step; infinite: it does not fit.
    [[nodiscard]] double time_of(Remade const& remade) const {
        std::vector<LinkDemand> forward;
        std::vector<LinkDemand> backward;
        double others_ns = 0;
        std::vector<LinkDemand> const demands = demands_of(remade);
        for (std::size_t at = 0; at < demands.size(); ++at) {
            if (demands[at].excess_bytes > demands[at].movable_bytes) {
                return kDoesNotFit;
            }
            Phase const phase = request_.trace.points[at].phase;
            if (phase == Phase::forward) {
                forward.push_back(demands[at]);
            } else if (phase == Phase::backward) {
                backward.push_back(demands[at]);
            } else {
                others_ns += demands[at].duration_ns;
            }
        }
        std::reverse(backward.begin(), backward.end());
        return time_behind_link(forward, rates_.out / 1e9) +
               time_behind_link(backward, rates_.in / 1e9) + others_ns;
    }

    PlanRequest const& request_;
    StepView const step_;
    TransferRates const rates_;
    std::vector<std::int64_t> const held_bytes_;  ///< by point
    std::vector<ValueId> candidates_;
    std::vector<std::optional<std::size_t>> leaves_;  ///< by its recipe, by value
    std::vector<ValueId> by_cost_;  ///< what can be made again, the least time a byte first
};

/// Plans that were simulated, and the fastest of them.
class StrTrials {
  public:
    StrTrials(PlanRequest const& request, StrProgram const& program)
        : request_(request), program_(program) {}

    void add(StrChoice choice) {
        if (std::count(tried_.begin(), tried_.end(), choice) > 0) {
            return;
        }
        Plan plan = program_.plan_of(choice);
        Result<Forecast> const costs = forecast(request_, request_.budgets, plan);
        bool const fits = costs.ok() && costs->fits;
        std::int64_t const step_ns = fits ? costs->step_ns : INT64_MAX;
        if (tried_.empty() || step_ns < least_ns_) {
            least_ns_ = step_ns;
            fastest_ = choice;
            plan_ = std::move(plan);
        }
        tried_.push_back(std::move(choice));
    }

    /// Gives the fastest plan's values, one at a time, another fate, as long as that is faster,
    /// there are trials left and no plan is known to be the fastest.
    void improve(std::int64_t bound_ns) {
        std::size_t const values = std::max<std::size_t>(1, program_.candidates().size());
        std::size_t left = std::min(kMostTrials, kTrials / values);
        for (bool is_better = true; is_better;) {
            std::int64_t const before_ns = least_ns_;
            for (ValueId const id : program_.candidates()) {
                for (FateKind const kind : {FateKind::keep, FateKind::move, FateKind::recompute}) {
                    if (left == 0 || least_ns_ <= bound_ns) {
                        return;
                    }
                    if (auto next = program_.with(fastest_, plan_, id, kind)) {
                        add(std::move(*next));
                        --left;
                    }
                }
            }
            is_better = least_ns_ < before_ns;
        }
    }

    Plan take() { return std::move(plan_); }

  private:
    PlanRequest const& request_;
    StrProgram const& program_;
    std::vector<StrChoice> tried_;
    StrChoice fastest_;
    Plan plan_;
    std::int64_t least_ns_ = 0;
};

}  // namespace

Result<Plan> plan_str(PlanRequest const& request) {
    StrProgram const program(request);
    std::int64_t const budget = request.budgets.device_bytes;
    StrChoice const nothing{Remade(request.trace.values.size())};
    if (budget == 0) {
        return program.plan_of(nothing);
    }
    std::int64_t const least = peak_without(program.step(), program.candidates());
    if (least > budget) {
        return Error{
            Errc::out_of_memory,
            "with all that can leave away the step takes " + format_size(least) + " of " +
                format_size(budget),
            ""};
    }
    StrTrials trials(request, program);
    trials.add({program.solve()});
    trials.add(nothing);
    if (std::optional<Remade> alone = program.remade_alone()) {
        trials.add({std::move(*alone)});
    }
    for (StrChoice& choice : program.by_solver()) {
        trials.add(std::move(choice));
    }
    std::int64_t const bound_ns = step_bound_ns(request);
    trials.improve(bound_ns);
    Plan plan = trials.take();
    plan.bound_step_ns = bound_ns;
    plan.policy = has_solver() ? "CBC" : "without CBC";
    return plan;
}

}  // namespace spillway
