// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/capuchin.h"

#include "policy/transfer_times.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

namespace spillway {

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;

struct Candidate {
    ValueId value;
    std::int64_t free_ns = 0;         ///< FT
    std::int64_t remake_ns = kNever;  ///< with what it is made of, as chosen so far
    FateKind fate = FateKind::keep;

    /// What it costs now, the cheaper way.
    [[nodiscard]] std::int64_t cost_ns() const {
        return std::min(std::max<std::int64_t>(0, -free_ns), remake_ns);
    }
};

class Chooser {
  public:
    explicit Chooser(PlanRequest const& request)
        : request_(request),
          step_(request.trace),
          rates_(transfer_rates(request.machine, request.pool())) {}

    Plan make() {
        find_candidates();
        std::stable_sort(
            all_.begin(),
            all_.end(),
            [](Candidate const& one, Candidate const& other) { return one.free_ns > other.free_ns; }
        );
        for (Candidate& each : all_) {
            if (is_enough() || each.free_ns <= 0) {
                break;
            }
            choose(each, FateKind::move);
        }
        while (!is_enough()) {
            Candidate* const cheapest = cheapest_left();
            if (cheapest == nullptr) {
                break;  // the executor makes room for the rest, or says that it cannot
            }
            bool const swaps = -cheapest->free_ns <= cheapest->remake_ns;
            choose(*cheapest, swaps ? FateKind::move : FateKind::recompute);
        }
        return plan();
    }

  private:
    [[nodiscard]] std::int64_t swap_ns(ValueId id, double rate) const {
        auto const bytes = static_cast<double>(request_.trace.values[id.index()].size_bytes);
        return rate <= 0 ? kNever : static_cast<std::int64_t>(bytes * 1e9 / rate);
    }

    /// Values that are on the device where it is fullest, and could be away then.
    void find_candidates() {
        std::size_t const fullest = fullest_point();
        for (std::size_t i = 0; i < step_.values.size(); ++i) {
            ValueView const& view = step_.values[i];
            if (!view.can_move() || *view.unshared >= fullest || *view.needed <= fullest) {
                continue;
            }
            Candidate each{.value = ValueId{static_cast<std::int64_t>(i)}};
            each.free_ns = (step_.begin_ns[*view.needed] - swap_ns(each.value, rates_.in)) -
                           (step_.begin_ns[*view.unshared + 1] + swap_ns(each.value, rates_.out));
            if (auto const& recipe = request_.trace.values[i].recipe) {
                each.remake_ns = recipe->duration_ns;
            }
            all_.push_back(each);
        }
    }

    [[nodiscard]] std::size_t fullest_point() const {
        std::int64_t held = 0;
        std::int64_t most = -1;
        std::size_t fullest = 0;
        for (std::size_t at = 0; at < request_.trace.points.size(); ++at) {
            TracePoint const& point = request_.trace.points[at];
            for (ValueId const id : point.saved) {
                held += request_.trace.values[id.index()].size_bytes;
            }
            if (held + point.floor_bytes > most) {
                most = held + point.floor_bytes;
                fullest = at;
            }
            for (ValueId const id : point.dropped) {
                held -= request_.trace.values[id.index()].size_bytes;
            }
        }
        return fullest;
    }

    [[nodiscard]] bool is_enough() const {
        return request_.budgets.device_bytes == 0 ||
               peak_without(step_, away_) <= request_.budgets.device_bytes;
    }

    void choose(Candidate& candidate, FateKind fate) {
        candidate.fate = fate;
        away_.push_back(candidate.value);
        if (fate != FateKind::recompute) {
            return;
        }
        // What is made of it has to make it, too.
        for (Candidate& other : all_) {
            auto const& recipe = request_.trace.values[other.value.index()].recipe;
            if (recipe && other.fate == FateKind::keep && other.remake_ns < kNever &&
                std::count(recipe->sources.begin(), recipe->sources.end(), candidate.value) > 0) {
                other.remake_ns += candidate.remake_ns;
            }
        }
        // And it is made once more for each that is made of it.
        for (ValueId const source :
             request_.trace.values[candidate.value.index()].recipe->sources) {
            for (Candidate& other : all_) {
                if (other.value == source && other.fate == FateKind::keep &&
                    other.remake_ns < kNever) {
                    other.remake_ns += request_.trace.values[source.index()].recipe->duration_ns;
                }
            }
        }
    }

    [[nodiscard]] Candidate* cheapest_left() {
        Candidate* cheapest = nullptr;
        for (Candidate& each : all_) {
            bool const is_left = each.fate == FateKind::keep && each.cost_ns() < kNever;
            if (is_left && (cheapest == nullptr || each.cost_ns() < cheapest->cost_ns())) {
                cheapest = &each;
            }
        }
        return cheapest;
    }

    [[nodiscard]] Plan plan() const {
        std::vector<ValueId> moved;
        for (Candidate const& each : all_) {
            if (each.fate == FateKind::move) {
                moved.push_back(each.value);
            }
        }
        Plan plan;
        place_transfers(step_, moved, rates_, request_.pool(), plan);
        for (ValueId const id : moved) {
            plan.fates[step_.slot_of(id)].leaves.reset();  // when an allocation fails
        }
        for (Candidate const& each : all_) {
            if (each.fate == FateKind::recompute) {
                plan.fates[step_.slot_of(each.value)] = {.kind = FateKind::recompute};
            }
        }
        keep_the_rest(step_, plan);
        return plan;
    }

    PlanRequest const& request_;
    StepView const step_;
    TransferRates const rates_;
    std::vector<Candidate> all_;
    std::vector<ValueId> away_;
};

}  // namespace

Result<Plan> plan_capuchin(PlanRequest const& request) {
    return Chooser(request).make();
}

}  // namespace spillway
