// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/capuchin.h"

#include "policy/away_peak.h"
#include "policy/link_queue.h"
#include "policy/transfer_times.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <vector>

namespace spillway {

namespace {

/// Eleven days: a thousand of them still add up.
constexpr std::int64_t kNever = 1'000'000'000'000'000;

/// Theirs: by so much of its swap time an access moves earlier that began a late return.
constexpr double kEarlierShare = 0.05;

std::int64_t swap_ns(PlanRequest const& request, ValueId id, double rate) {
    auto const bytes = static_cast<double>(request.trace.values[id.index()].size_bytes);
    double const never = static_cast<double>(kNever);
    return rate <= 0 ? kNever : static_cast<std::int64_t>(std::min(never, bytes * 1e9 / rate));
}

struct Candidate {
    ValueId value;
    std::int64_t free_ns = 0;         ///< FT, as if the link were its own
    std::int64_t remake_ns = kNever;  ///< with what it is made of, as chosen so far
    FateKind fate = FateKind::keep;
    std::int64_t ready_ns = 0;  ///< it may leave
    std::int64_t need_ns = 0;
    std::int64_t out_ns = 0;  ///< that it takes
    std::int64_t in_ns = 0;
};

/// The cheapest of what is left.
struct Best {
    Candidate* candidate = nullptr;
    FateKind fate = FateKind::keep;
    double ns_per_byte = 0;
};

/// Of no candidate.
constexpr std::size_t kNoPlace = std::numeric_limits<std::size_t>::max();

class Chooser {
  public:
    explicit Chooser(PlanRequest const& request)
        : request_(request),
          step_(request.trace),
          rates_(transfer_rates(request.machine, request.pool())),
          is_queue_(request.parameter("queue") != 0),
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
            if (exposed_with(each) == 0) {
                choose(each, FateKind::move);
            }
        }
        look_up_candidates();
        while (!is_enough()) {
            Best const best = cheapest_left();
            if (best.candidate == nullptr) {
                break;  // the executor makes room for the rest, or says that it cannot
            }
            choose(*best.candidate, best.fate);
        }
        return plan();
    }

  private:
    /// Values that are on the device where it is fullest, and could be away then.
    void find_candidates() {
        std::size_t const fullest = fullest_point();
        fullest_ns_ = step_.begin_ns[fullest];
        for (std::size_t i = 0; i < step_.values.size(); ++i) {
            ValueView const& view = step_.values[i];
            if (!view.can_move() || *view.unshared >= fullest || *view.needed <= fullest) {
                continue;
            }
            Candidate each{.value = ValueId{static_cast<std::int64_t>(i)}};
            each.ready_ns = step_.begin_ns[*view.unshared + 1];
            each.need_ns = step_.begin_ns[*view.needed];
            each.out_ns = swap_ns(request_, each.value, rates_.out);
            each.in_ns = swap_ns(request_, each.value, rates_.in);
            each.free_ns = (each.need_ns - each.in_ns) - (each.ready_ns + each.out_ns);
            if (auto const& recipe = request_.trace.values[i].recipe) {
                each.remake_ns = recipe->duration_ns;
            }
            all_.push_back(each);
        }
    }

    /// What compute would wait if this one were swapped, too: for stores that have not ended where
    /// the device is fullest, and for loads that had to begin before.
    [[nodiscard]] std::int64_t exposed_with(Candidate const& each) const {
        if (!is_queue_) {
            return exposed_ns_ + std::max<std::int64_t>(0, -each.free_ns);
        }
        std::int64_t const out_end_ns = out_.end_with(each.ready_ns, each.out_ns);
        std::int64_t const in_begin_ns = -in_.end_with(-each.need_ns, each.in_ns);
        return std::max<std::int64_t>(0, out_end_ns - fullest_ns_) +
               std::max<std::int64_t>(0, fullest_ns_ - in_begin_ns);
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

    /// Who is made of what.
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
        }
    }

    void add_remake_ns(std::size_t place, std::int64_t more_ns) {
        Candidate& each = all_[place];
        if (each.fate == FateKind::keep && each.remake_ns < kNever) {
            each.remake_ns += more_ns;
        }
    }

    void choose(Candidate& candidate, FateKind fate) {
        candidate.fate = fate;
        peak_.add(candidate.value);
        if (fate != FateKind::recompute) {
            exposed_ns_ = exposed_with(candidate);
            out_.add(candidate.ready_ns, candidate.out_ns);
            in_.add(-candidate.need_ns, candidate.in_ns);
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

    [[nodiscard]] Best cheapest_left() {
        Best best;
        auto const offer = [&](Candidate& each, FateKind fate, std::int64_t cost_ns) {
            auto const bytes = request_.trace.values[each.value.index()].size_bytes;
            double const ns_per_byte = static_cast<double>(cost_ns) /
                                       static_cast<double>(std::max<std::int64_t>(1, bytes));
            if (cost_ns < kNever && (best.candidate == nullptr || ns_per_byte < best.ns_per_byte)) {
                best = {&each, fate, ns_per_byte};
            }
        };
        for (Candidate& each : all_) {
            if (each.fate == FateKind::keep) {
                offer(each, FateKind::move, exposed_with(each) - exposed_ns_);
                offer(each, FateKind::recompute, each.remake_ns);
            }
        }
        return best;
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
    bool const is_queue_;  ///< swaps wait for each other
    std::vector<Candidate> all_;
    AwayPeak peak_;                                  ///< with what was chosen away
    std::vector<std::size_t> place_of_;              ///< in `all_`, by value
    std::vector<std::vector<std::size_t>> made_of_;  ///< places in `all_`, by source
    std::int64_t fullest_ns_ = 0;
    std::int64_t exposed_ns_ = 0;  ///< of what was chosen
    LinkQueue out_;
    LinkQueue in_;  ///< backwards
};

/// The plan that has run; what it waited for begins to return at an earlier need, if there is one.
Plan with_earlier_returns(PlanRequest const& request) {
    StepView const step(request.trace);
    double const rate = transfer_rates(request.machine, request.pool()).in;
    std::map<Slot, ValueId> values;
    for (std::size_t i = 0; i < request.trace.values.size(); ++i) {
        ValueId const id{static_cast<std::int64_t>(i)};
        values.emplace(step.slot_of(id), id);
    }
    Plan plan = request.ran->plan;
    plan.policy.clear();
    for (auto const& [slot, waited_ns] : request.ran->waits_ns) {
        auto const fate = plan.fates.find(slot);
        if (waited_ns <= 0 || fate == plan.fates.end() || !fate->second.returns) {
            continue;
        }
        auto const late = values.find(slot);
        auto const trigger = values.find(*fate->second.returns);
        if (late == values.end() || trigger == values.end()) {
            continue;
        }
        auto const swap = static_cast<double>(swap_ns(request, late->second, rate));
        auto const earlier_ns = std::max<std::int64_t>(1, std::llround(kEarlierShare * swap));
        std::int64_t const now_ns = step.begin_ns[*step.values[trigger->second.index()].needed];
        if (std::optional<ValueId> const at = last_need_by(step, now_ns - earlier_ns)) {
            fate->second.returns = step.slot_of(*at);
        }
    }
    return plan;
}

}  // namespace

Result<Plan> plan_capuchin(PlanRequest const& request) {
    return request.ran == nullptr ? Chooser(request).make() : with_earlier_returns(request);
}

}  // namespace spillway
