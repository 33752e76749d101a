// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A genetic search over lists of small numbers, for policies that judge plans by the simulator. It
// ends after its generations, never by a clock: the same settings give the same list.
#pragma once

#include "base/random.h"
#include "base/result.h"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace spillway {

/// Numbers that depend on the seed and on how many were drawn before alone.
class Draws {
  public:
    explicit Draws(std::uint64_t seed) : seed_(mixed(seed)) {}
    /// In [0, count); 0 where `count` is.
    std::size_t below(std::size_t count) {
        return count == 0 ? 0 : static_cast<std::size_t>(mixed(seed_ ^ ++drawn_) % count);
    }
    /// In [0, 1).
    double share() { return static_cast<double>(mixed(seed_ ^ ++drawn_) >> 11U) * 0x1p-53; }

    template <typename T>
    void shuffle(std::vector<T>& items) {
        for (std::size_t left = items.size(); left > 1; --left) {
            std::swap(items[left - 1], items[below(left)]);
        }
    }

  private:
    std::uint64_t seed_;
    std::uint64_t drawn_ = 0;
};

using Genes = std::vector<std::uint8_t>;

/// Less is better: what does not fit is worse than what does, then the slower is, then what moves
/// more.
struct GeneticCost {
    bool is_refused = false;
    std::int64_t time_ns = 0;
    std::int64_t moved_bytes = 0;

    auto operator<=>(GeneticCost const&) const = default;
};

struct GeneticProblem {
    std::size_t genes = 0;        ///< how many each list has
    std::size_t alleles = 2;      ///< each gene is in [0, alleles)
    std::int64_t least_ns = 0;    ///< no list can take less time
    std::vector<Genes> starts{};  ///< judged first
    std::function<Result<GeneticCost>(Genes const&)> cost{};
    std::function<void(Genes&, Draws&)> repair{};  ///< of drawn lists, before they are judged
};

struct GeneticSettings {
    std::uint64_t seed = 0;
    std::size_t population = 8;
    std::size_t generations = 8;
};

struct GeneticResult {
    Genes best{};
    std::vector<GeneticCost> best_costs{};  ///< after each generation, the starts' first
};

/// The population is the starts and random lists. Each generation makes as many children: two of
/// two parents by one cut, of which two genes on average are drawn anew. Of parents and children
/// the best stays, and others by lot, the faster the likelier (softmax of the time's standard
/// score). It ends early where nothing can be faster than the best. No list is judged twice.
///
/// Fails   as `cost` does
[[nodiscard]] Result<GeneticResult> genetic_search(
    GeneticProblem const& problem, GeneticSettings const& settings
);

}  // namespace spillway
