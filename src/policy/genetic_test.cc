// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/genetic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace spillway {
namespace {

std::int64_t differences(Genes const& genes) {
    std::int64_t count = 0;
    for (std::size_t i = 0; i < genes.size(); ++i) {
        count += genes[i] == i % 3 ? 0 : 1;
    }
    return count;
}

/// A list costs how many of its genes differ from 0, 1, 2, 0, 1, 2 ...
GeneticProblem puzzle(std::size_t genes) {
    return {
        .genes = genes,
        .alleles = 3,
        .least_ns = 0,
        .starts = {Genes(genes, 2)},
        .cost = [](Genes const& list) -> Result<GeneticCost> {
            return GeneticCost{.time_ns = differences(list)};
        },
        .repair = [](Genes&, Draws&) {}};
}

TEST(Genetic, draws_hang_on_the_seed_and_stay_in_their_range) {
    Draws one(7);
    Draws same(7);
    Draws other(8);
    std::set<std::size_t> seen;
    std::int64_t equal = 0;
    for (std::int64_t i = 0; i < 100; ++i) {
        std::size_t const number = one.below(5);
        EXPECT_EQ(number, same.below(5));
        equal += number == other.below(5) ? 1 : 0;
        seen.insert(number);
        double const share = one.share();
        EXPECT_TRUE(share >= 0 && share < 1);
        EXPECT_EQ(share, same.share());
        other.share();
    }
    EXPECT_EQ(seen, (std::set<std::size_t>{0, 1, 2, 3, 4}));
    EXPECT_LT(equal, 50);
    EXPECT_EQ(one.below(0), 0U);
    std::vector<int> items{1, 2, 3, 4, 5, 6};
    one.shuffle(items);
    EXPECT_NE(items, (std::vector<int>{1, 2, 3, 4, 5, 6}));
    std::sort(items.begin(), items.end());
    EXPECT_EQ(items, (std::vector<int>{1, 2, 3, 4, 5, 6}));
}

TEST(Genetic, the_best_never_gets_worse_and_ends_at_the_least) {
    Result<GeneticResult> const found =
        genetic_search(puzzle(12), {.seed = 1, .population = 16, .generations = 400});
    ASSERT_TRUE(found.ok());
    ASSERT_GT(found->best_costs.size(), 3U) << "the starts alone did not do it";
    EXPECT_LT(found->best_costs.size(), 401U) << "it ends where nothing can be better";
    EXPECT_TRUE(std::is_sorted(found->best_costs.rbegin(), found->best_costs.rend()));
    EXPECT_EQ(found->best_costs.back().time_ns, 0);
    EXPECT_EQ(differences(found->best), 0);
}

TEST(Genetic, the_same_seed_finds_the_same_by_the_same_way) {
    GeneticSettings const settings{.seed = 5, .population = 8, .generations = 10};
    Result<GeneticResult> const one = genetic_search(puzzle(30), settings);
    Result<GeneticResult> const same = genetic_search(puzzle(30), settings);
    Result<GeneticResult> const other =
        genetic_search(puzzle(30), {.seed = 6, .population = 8, .generations = 10});
    ASSERT_TRUE(one.ok() && same.ok() && other.ok());
    EXPECT_EQ(one->best, same->best);
    EXPECT_EQ(one->best_costs, same->best_costs);
    EXPECT_NE(one->best, other->best);
}

TEST(Genetic, each_list_is_judged_once_and_after_its_repair) {
    GeneticProblem problem = puzzle(4);
    std::set<Genes> judged;
    bool is_new = true;
    problem.starts = {Genes(4, 1), Genes(4, 1)};
    problem.least_ns = -1;
    problem.repair = [](Genes& list, Draws&) { list.front() = 1; };
    problem.cost = [&](Genes const& list) -> Result<GeneticCost> {
        is_new = is_new && judged.insert(list).second;
        return GeneticCost{.time_ns = differences(list)};
    };
    Result<GeneticResult> const found =
        genetic_search(problem, {.seed = 0, .population = 8, .generations = 60});
    ASSERT_TRUE(found.ok());
    EXPECT_TRUE(is_new);
    EXPECT_EQ(judged.size(), 27U) << "all that begin with 1";
    EXPECT_EQ(found->best, (Genes{1, 1, 2, 0}));
}

TEST(Genetic, what_is_refused_is_worse_than_what_is_slow_and_moves_much) {
    GeneticCost const refused{.is_refused = true};
    GeneticCost const slow{.time_ns = 10, .moved_bytes = 0};
    GeneticCost const fast{.time_ns = 9, .moved_bytes = 100};
    EXPECT_LT(slow, refused);
    EXPECT_LT(fast, slow);
    EXPECT_LT((GeneticCost{.time_ns = 9, .moved_bytes = 99}), fast);
}

TEST(Genetic, an_error_of_the_judge_ends_it_and_nothing_to_choose_is_no_error) {
    GeneticProblem problem = puzzle(4);
    problem.cost = [](Genes const&) -> Result<GeneticCost> {
        return Error{Errc::broken_promise, "no", ""};
    };
    EXPECT_EQ(genetic_search(problem, {}).error().code, Errc::broken_promise);
    Result<GeneticResult> const none = genetic_search(puzzle(0), {});
    ASSERT_TRUE(none.ok());
    EXPECT_EQ(none->best, Genes());
}

}  // namespace
}  // namespace spillway
