// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/capuchin.h"

#include "policy/away_peak.h"
#include "policy/transfer_times.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>
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

/// Of no candidate.
constexpr std::size_t kNoPlace = std::numeric_limits<std::size_t>::max();

class Chooser {
  public:
    explicit Chooser(PlanRequest const& request)
        : request_(request),
          step_(request.trace),
          rates_(transfer_rates(request.machine, request.pool())),
          peak_(step_) {}

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
        look_up_candidates();
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
               peak_.peak_bytes() <= request_.budgets.device_bytes;
    }

    /// Who is made of what, and what is left by what it costs.
    void look_up_candidates() {
        place_of_.assign(step_.values.size(), kNoPlace);
        made_of_.resize(step_.values.size());
        for (std::size_t i = 0; i < all_.size(); ++i) {
            place_of_[all_[i].value.index()] = i;
            if (auto const& recipe = request_.trace.values[all_[i].value.index()].recipe) {
                for (ValueId const source : recipe->sources) {
                    std::vector<std::size_t>& made = made_of_[source.index()];
                    if (made.empty() || made.back() != i) {
                        made.push_back(i);
                    }
                }
            }
            file(i);
        }
    }

    void file(std::size_t place) {
        Candidate const& each = all_[place];
        if (each.fate == FateKind::keep && each.cost_ns() < kNever) {
            left_.emplace(each.cost_ns(), place);
        }
    }

    void add_remake_ns(std::size_t place, std::int64_t more_ns) {
        Candidate& each = all_[place];
        if (each.fate == FateKind::keep && each.remake_ns < kNever) {
            left_.erase({each.cost_ns(), place});
            each.remake_ns += more_ns;
            file(place);
        }
    }

    void choose(Candidate& candidate, FateKind fate) {
        left_.erase({candidate.cost_ns(), static_cast<std::size_t>(&candidate - all_.data())});
        candidate.fate = fate;
        peak_.add(candidate.value);
        if (fate != FateKind::recompute) {
            return;
        }
        // What is made of it has to make it, too.
        for (std::size_t const place : made_of_[candidate.value.index()]) {
            add_remake_ns(place, candidate.remake_ns);
        }
        // And it is made once more for each that is made of it.
        for (ValueId const source :
             request_.trace.values[candidate.value.index()].recipe->sources) {
            if (std::size_t const place = place_of_[source.index()]; place != kNoPlace) {
                add_remake_ns(place, recipe_ns(source));
            }
        }
    }

    [[nodiscard]] std::int64_t recipe_ns(ValueId id) const {
        auto const& recipe = request_.trace.values[id.index()].recipe;
        return recipe ? recipe->duration_ns : 0;
    }

    /// Of equal ones the one with the most free time.
    [[nodiscard]] Candidate* cheapest_left() {
        return left_.empty() ? nullptr : &all_[left_.begin()->second];
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
    AwayPeak peak_;                                        ///< with what was chosen away
    std::vector<std::size_t> place_of_;                    ///< in `all_`, by value
    std::vector<std::vector<std::size_t>> made_of_;        ///< places in `all_`, by source
    std::set<std::pair<std::int64_t, std::size_t>> left_;  ///< (cost, place in `all_`)
};

}  // namespace

Result<Plan> plan_capuchin(PlanRequest const& request) {
    return Chooser(request).make();
}

}  // namespace spillway
