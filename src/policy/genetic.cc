// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/genetic.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

namespace spillway {

namespace {

constexpr std::size_t kNewGenesOfAChild = 2;  ///< on average

struct Judged {
    GeneticCost cost;
    Genes genes;

    auto operator<=>(Judged const&) const = default;
};

/// The chance of each to be drawn, up to one factor: e to the power of minus its time's standard
/// score. What is refused counts as twice the slowest.
std::vector<double> weights_of(std::vector<Judged> const& all) {
    double slowest_ns = 0;
    for (Judged const& each : all) {
        auto const time_ns = static_cast<double>(each.cost.time_ns);
        slowest_ns = each.cost.is_refused ? slowest_ns : std::max(slowest_ns, time_ns);
    }
    std::vector<double> times;
    for (Judged const& each : all) {
        times.push_back(
            each.cost.is_refused ? 2 * slowest_ns : static_cast<double>(each.cost.time_ns)
        );
    }
    auto const count = static_cast<double>(times.size());
    double const mean = std::accumulate(times.begin(), times.end(), 0.0) / count;
    double variance = 0;
    for (double const time : times) {
        variance += (time - mean) * (time - mean) / count;
    }
    std::vector<double> weights;
    for (double const time : times) {
        weights.push_back(variance > 0 ? std::exp((mean - time) / std::sqrt(variance)) : 1.0);
    }
    return weights;
}

class Search {
  public:
    Search(GeneticProblem const& problem, GeneticSettings const& settings)
        : problem_(problem), settings_(settings), draws_(settings.seed) {}

    Result<GeneticResult> run() {
        begin();
        GeneticResult result;
        for (std::size_t generation = 0; !error_ && !population_.empty(); ++generation) {
            result.best_costs.push_back(population_.front().cost);
            if (generation == settings_.generations || is_fastest(population_.front().cost)) {
                break;
            }
            std::vector<Judged> all = population_;
            add_children(all);
            population_ = survivors_of(std::move(all));
        }
        if (error_) {
            return *error_;
        }
        result.best = population_.empty() ? Genes() : population_.front().genes;
        return result;
    }

  private:
    [[nodiscard]] bool is_fastest(GeneticCost const& cost) const {
        return !cost.is_refused && cost.time_ns <= problem_.least_ns;
    }

    void judge(Genes genes, std::vector<Judged>& into) {
        if (error_ || !known_.insert(genes).second) {
            return;
        }
        Result<GeneticCost> const cost = problem_.cost(genes);
        if (cost.ok()) {
            into.push_back({*cost, std::move(genes)});
        } else {
            error_ = cost.error();
        }
    }

    void begin() {
        bool is_best_of_all = false;
        for (Genes const& start : problem_.starts) {
            if (!is_best_of_all) {
                judge(start, population_);
            }
            is_best_of_all = !population_.empty() && is_fastest(population_.back().cost) &&
                             population_.back().cost.moved_bytes == 0;
        }
        std::sort(population_.begin(), population_.end());
        bool const is_over = !population_.empty() && is_fastest(population_.front().cost);
        for (std::size_t i = population_.size(); i < settings_.population && !is_over; ++i) {
            Genes genes(problem_.genes);
            for (std::uint8_t& gene : genes) {
                gene = allele();
            }
            problem_.repair(genes, draws_);
            judge(std::move(genes), population_);
        }
        std::sort(population_.begin(), population_.end());
    }

    std::uint8_t allele() { return static_cast<std::uint8_t>(draws_.below(problem_.alleles)); }

    void add_children(std::vector<Judged>& all) {
        for (std::size_t i = 0; i < settings_.population; i += 2) {
            Genes one = population_[draws_.below(population_.size())].genes;
            Genes other = population_[draws_.below(population_.size())].genes;
            auto const cut = static_cast<std::ptrdiff_t>(draws_.below(problem_.genes));
            std::swap_ranges(one.begin() + cut, one.end(), other.begin() + cut);
            for (Genes* const child : {&one, &other}) {
                for (std::uint8_t& gene : *child) {
                    gene = draws_.below(problem_.genes) < kNewGenesOfAChild ? allele() : gene;
                }
                problem_.repair(*child, draws_);
                judge(std::move(*child), all);
            }
        }
    }

    /// By lot, one whose weight is not 0, or the first.
    std::size_t drawn(std::vector<double> const& weights) {
        double left = draws_.share() * std::accumulate(weights.begin(), weights.end(), 0.0);
        std::size_t last = 0;
        for (std::size_t i = 0; i < weights.size() && left >= 0; ++i) {
            left -= weights[i];
            last = weights[i] > 0 ? i : last;
        }
        return last;
    }

    /// Sorted, the best first.
    std::vector<Judged> survivors_of(std::vector<Judged> all) {
        std::sort(all.begin(), all.end());
        std::vector<double> weights = weights_of(all);
        std::vector<bool> stays(all.size());
        for (std::size_t i = 0; i < std::min(all.size(), settings_.population); ++i) {
            std::size_t const chosen = i == 0 ? 0 : drawn(weights);
            stays[chosen] = true;
            weights[chosen] = 0;
        }
        std::vector<Judged> survivors;
        for (std::size_t i = 0; i < all.size(); ++i) {
            if (stays[i]) {
                survivors.push_back(std::move(all[i]));
            }
        }
        return survivors;
    }

    GeneticProblem const& problem_;
    GeneticSettings const& settings_;
    Draws draws_;
    std::vector<Judged> population_;
    std::set<Genes> known_;
    std::optional<Error> error_;
};

}  // namespace

Result<GeneticResult> genetic_search(
    GeneticProblem const& problem, GeneticSettings const& settings
) {
    return Search(problem, settings).run();
}

}  // namespace spillway
