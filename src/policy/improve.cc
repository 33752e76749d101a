// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/improve.h"

#include "policy/transfer_times.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

namespace spillway {

namespace {

/// What a value may become.
enum class Turn : std::uint8_t { keep, move, recompute, online };

/// Values are turned in windows of their order: [skip, skip + count).
struct Window {
    Turn turn = Turn::keep;
    std::size_t count = 0;
    std::size_t skip = 0;
    bool is_over = false;
};

class Climber {
  public:
    Climber(PlanRequest const& request, JudgedPlan start, ImproveSettings const& settings)
        : request_(request), settings_(settings), step_(request.trace), best_(std::move(start)) {}

    JudgedPlan climb(std::vector<JudgedPlan> const& starts) {
        cross(starts);
        change_times();
        std::array windows{
            Window{Turn::keep}, Window{Turn::recompute}, Window{Turn::move}, Window{Turn::online}};
        for (Window& window : windows) {
            window.count = std::max<std::size_t>(1, step_.values.size() / 4);
        }
        bool goes_on = true;
        while (goes_on && !is_over()) {
            goes_on = false;
            for (Window& window : windows) {
                goes_on = pass(window, windows) || goes_on;
            }
        }
        return std::move(best_);
    }

  private:
    [[nodiscard]] bool is_over() const {
        return tries_ >= settings_.tries || best_.forecast.costs.step_ns <= settings_.least_ns;
    }

    bool try_plan(Plan plan) {
        if (is_over() || plan.fates == best_.plan.fates) {
            return false;
        }
        ++tries_;
        std::optional<JudgedPlan> neighbour = judged(request_, best_.whose, std::move(plan));
        if (!neighbour || !neighbour->is_better_than(best_)) {
            return false;
        }
        best_ = *std::move(neighbour);
        return true;
    }

    /// The fates of one plan, and what others make again; both ways round.
    void cross(std::vector<JudgedPlan> const& starts) {
        for (JudgedPlan const& one : starts) {
            for (JudgedPlan const& other : starts) {
                Plan plan = one.plan;
                for (auto const& [slot, fate] : other.plan.fates) {
                    if (&one != &other && fate.kind == FateKind::recompute) {
                        plan.fates[slot] = fate;
                    }
                }
                if (plan.fates != one.plan.fates) {
                    (void)try_plan(std::move(plan));
                }
            }
        }
    }

    void change_times() {
        Plan untimed = best_.plan;
        std::vector<ValueId> moved;
        for (std::size_t i = 0; i < step_.values.size(); ++i) {
            ValueId const id{static_cast<std::int64_t>(i)};
            auto const fate = untimed.fates.find(step_.slot_of(id));
            if (fate == untimed.fates.end()) {
                continue;
            }
            fate->second.leaves.reset();
            fate->second.returns.reset();
            if (fate->second.kind == FateKind::move && step_.values[i].can_move()) {
                moved.push_back(id);
            }
        }
        TransferRates const rates = transfer_rates(request_.machine, request_.pool());
        Plan timed = untimed;
        place_transfers(step_, moved, rates, request_.pool(), timed);
        (void)try_plan(std::move(untimed));
        (void)try_plan(timed);
        for (ValueId const id : moved) {
            timed.fates[step_.slot_of(id)].leaves.reset();
        }
        (void)try_plan(std::move(timed));
    }

    [[nodiscard]] bool may_turn(std::size_t i, Turn turn) const {
        ValueId const id{static_cast<std::int64_t>(i)};
        auto const fate = best_.plan.fates.find(step_.slot_of(id));
        bool const is_named = fate != best_.plan.fates.end();
        auto const is = [&](FateKind kind) { return is_named && fate->second.kind == kind; };
        bool const can_move = step_.values[i].can_move();
        switch (turn) {
            case Turn::online:
                return is_named;
            case Turn::keep:
                return !is(FateKind::keep) && (is_named || can_move);
            case Turn::move:
                return !is(FateKind::move) && request_.budgets.has_pool() && can_move;
            case Turn::recompute:
                break;
        }
        return !is(FateKind::recompute) && request_.trace.values[i].recipe && can_move;
    }

    /// Those that may be turned so, what costs the most first.
    [[nodiscard]] std::vector<std::size_t> order_for(Turn turn) const {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < step_.values.size(); ++i) {
            if (may_turn(i, turn)) {
                order.push_back(i);
            }
        }
        auto const rank = [&](std::size_t i) {
            return std::pair(-best_.forecast.delays_ns[i], -request_.trace.values[i].size_bytes);
        };
        std::stable_sort(order.begin(), order.end(), [&](std::size_t one, std::size_t other) {
            return rank(one) < rank(other);
        });
        return order;
    }

    /// One try. False: this window has none left.
    template <typename Windows>
    bool pass(Window& window, Windows& all) {
        if (window.is_over) {
            return false;
        }
        std::vector<std::size_t> const order = order_for(window.turn);
        if (window.skip >= order.size()) {
            window.is_over = true;
            return false;
        }
        window.count = std::min(window.count, order.size());
        Plan plan = best_.plan;
        std::size_t const end = std::min(order.size(), window.skip + window.count);
        for (std::size_t k = window.skip; k < end; ++k) {
            turn_value(plan, order[k], window.turn);
        }
        if (try_plan(std::move(plan))) {
            window.count *= 2;
            for (Window& each : all) {
                each.skip = 0;
                each.is_over = false;
            }
        } else if (window.count > 1) {
            window.count /= 2;
        } else {
            ++window.skip;
        }
        return true;
    }

    void turn_value(Plan& plan, std::size_t i, Turn turn) const {
        Slot const& slot = step_.slot_of(ValueId{static_cast<std::int64_t>(i)});
        switch (turn) {
            case Turn::keep:
                plan.fates[slot] = {};
                return;
            case Turn::move:
                plan.fates[slot] = {.kind = FateKind::move, .pool = request_.pool()};
                return;
            case Turn::recompute:
                plan.fates[slot] = {.kind = FateKind::recompute};
                return;
            case Turn::online:
                plan.fates.erase(slot);
                return;
        }
    }

    PlanRequest const& request_;
    ImproveSettings const& settings_;
    StepView const step_;
    JudgedPlan best_;
    std::size_t tries_ = 0;
};

}  // namespace

JudgedPlan improved(
    PlanRequest const& request,
    std::vector<JudgedPlan> const& starts,
    ImproveSettings const& settings
) {
    auto const best = std::min_element(
        starts.begin(),
        starts.end(),
        [](JudgedPlan const& one, JudgedPlan const& other) { return one.is_better_than(other); }
    );
    return Climber(request, *best, settings).climb(starts);
}

}  // namespace spillway
