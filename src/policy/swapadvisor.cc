// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/swapadvisor.h"

#include "policy/forecast.h"
#include "policy/transfer_times.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

namespace spillway {

namespace {

/// Of more genes fewer generations are made, since each list takes longer to judge.
constexpr std::size_t kManyGenes = 1000;

std::size_t most_generations(std::size_t genes) {
    std::size_t const most = genes > kManyGenes ? 12 * kManyGenes / genes : 12;
    return std::clamp<std::size_t>(genes / 16, 1, std::max<std::size_t>(1, most));
}

/// As large as a plan in seconds allows; few where the step is small, since it is made often.
GeneticSettings swap_search_settings(PlanRequest const& request, std::size_t genes) {
    auto const given = [&](char const* name, std::size_t otherwise) {
        auto const number = static_cast<std::size_t>(request.parameter(name));
        return number == 0 ? otherwise : number;
    };
    return {
        .seed = static_cast<std::uint64_t>(request.parameter("seed")),
        .population = given("population", std::clamp<std::size_t>(genes / 8, 6, 16)),
        .generations = given("generations", most_generations(genes))};
}

class Swaps {
  public:
    explicit Swaps(PlanRequest const& request) : request_(request), step_(request.trace) {
        for (Pool const pool : {Pool::host, Pool::nvme}) {
            std::int64_t const bytes =
                pool == Pool::host ? request.budgets.host_bytes : request.budgets.nvme_bytes;
            if (bytes > 0) {
                pools_.push_back({pool, bytes});
            }
        }
        for (std::size_t i = 0; i < step_.values.size() && !pools_.empty(); ++i) {
            if (step_.values[i].can_move()) {
                gene_of_.push_back(movable_.size());
                movable_.push_back(ValueId{static_cast<std::int64_t>(i)});
            } else {
                gene_of_.push_back(0);
            }
        }
    }

    [[nodiscard]] Result<GeneticResult> search() const {
        GeneticProblem const problem{
            .genes = movable_.size(),
            .alleles = 1 + pools_.size(),
            .least_ns = step_.begin_ns.back(),
            .starts = starts(),
            .cost = [this](Genes const& genes) { return cost(genes); },
            .repair = [this](Genes& genes, Draws& draws) { repair(genes, draws); }};
        return genetic_search(problem, swap_search_settings(request_, movable_.size()));
    }

    /// Each is stored right after its last use, goes when its room is needed, and returns as early
    /// as there is room.
    [[nodiscard]] Plan plan(Genes const& genes) const {
        Plan plan;
        for (std::size_t i = 0; i < genes.size(); ++i) {
            if (genes[i] > 0) {
                Pool const pool = pools_[genes[i] - 1U].pool;
                plan.fates[step_.slot_of(movable_[i])] = {.kind = FateKind::move, .pool = pool};
            }
        }
        keep_the_rest(step_, plan);
        return plan;
    }

  private:
    struct Place {
        Pool pool = Pool::host;
        std::int64_t bytes = 0;
    };

    [[nodiscard]] std::int64_t size_of(ValueId id) const {
        return request_.trace.values[id.index()].size_bytes;
    }

    [[nodiscard]] Result<GeneticCost> cost(Genes const& genes) const {
        Result<Forecast> const costs = forecast(request_, request_.budgets, plan(genes));
        if (!costs.ok()) {
            return costs.error();
        }
        std::int64_t moved_bytes = 0;
        for (std::size_t i = 0; i < genes.size(); ++i) {
            moved_bytes += genes[i] == 0 ? 0 : size_of(movable_[i]);
        }
        return GeneticCost{!costs->fits, costs->step_ns, moved_bytes};
    }

    void repair(Genes& genes, Draws& draws) const {
        std::vector<ValueId> moved;
        std::vector<ValueId> staying;
        for (std::size_t i = 0; i < genes.size(); ++i) {
            (genes[i] == 0 ? staying : moved).push_back(movable_[i]);
        }
        draws.shuffle(staying);
        std::int64_t const budget = request_.budgets.device_bytes;
        for (ValueId const id : fewest_that_fit(step_, moved, staying, budget)) {
            genes[gene_of_[id.index()]] = static_cast<std::uint8_t>(1 + draws.below(pools_.size()));
        }
    }

    [[nodiscard]] Genes genes_of(std::vector<ValueId> const& moved) const {
        Genes genes(movable_.size());
        std::size_t place = 0;
        std::int64_t taken_bytes = 0;
        for (ValueId const id : moved) {
            taken_bytes += size_of(id);
            if (taken_bytes > pools_[place].bytes && place + 1 < pools_.size()) {
                ++place;
                taken_bytes = size_of(id);
            }
            genes[gene_of_[id.index()]] = static_cast<std::uint8_t>(1 + place);
        }
        return genes;
    }

    template <typename Key>
    [[nodiscard]] Genes fewest_by(Key const& key) const {
        std::vector<ValueId> order = movable_;
        std::stable_sort(order.begin(), order.end(), [&](ValueId one, ValueId other) {
            return key(one) < key(other);
        });
        return genes_of(fewest_that_fit(step_, {}, order, request_.budgets.device_bytes));
    }

    [[nodiscard]] std::vector<Genes> starts() const {
        auto const view = [&](ValueId id) -> ValueView const& { return step_.values[id.index()]; };
        return {
            genes_of({}),
            fewest_by([&](ValueId id) { return *view(id).unshared; }),
            fewest_by([&](ValueId id) { return step_.begin_ns.size() - *view(id).needed; }),
            fewest_by([&](ValueId id) { return -size_of(id); }),
            genes_of(movable_)};
    }

    PlanRequest const& request_;
    StepView const step_;
    std::vector<Place> pools_;
    std::vector<ValueId> movable_;
    std::vector<std::size_t> gene_of_;  ///< by value
};

}  // namespace

Result<GeneticResult> search_swaps(PlanRequest const& request) {
    return Swaps(request).search();
}

Result<Plan> plan_swapadvisor(PlanRequest const& request) {
    Swaps const swaps(request);
    Result<GeneticResult> const found = swaps.search();
    if (!found.ok()) {
        return found.error();
    }
    return swaps.plan(found->best);
}

}  // namespace spillway
