// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/swapadvisor.h"

#include "base/random.h"
#include "policy/chain_test.h"
#include "policy/forecast.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace spillway {
namespace {

/// Every third value is three times as large.
Trace uneven_chain(std::int64_t layers) {
    Trace trace = chain(layers);
    for (std::size_t i = 1; i < trace.values.size(); i += 3) {
        trace.values[i].size_bytes *= 3;
    }
    return trace;
}

/// Values of 100 KB to 3.1 MB.
Trace mixed_chain(std::int64_t layers) {
    Trace trace = chain(layers);
    for (std::size_t i = 0; i < trace.values.size(); ++i) {
        trace.values[i].size_bytes = 1'000 * static_cast<std::int64_t>(100 + mixed(i) % 3'000);
    }
    return trace;
}

Result<Plan> swapadvisor_of(
    std::string const& choice, Trace const& trace, double rate, std::int64_t device_bytes
) {
    return make_plan(
        *parse_policy_choice(choice),
        trace,
        fast_machine(rate),
        {.device_bytes = device_bytes, .host_bytes = 1_GiB}
    );
}

/// The fastest of all subsets that leave.
std::int64_t fastest_of_all_subsets(PlanRequest const& request) {
    std::vector<TraceValue> const& values = request.trace.values;
    std::int64_t best_ns = std::numeric_limits<std::int64_t>::max();
    for (std::uint64_t subset = 0; subset < (1ULL << values.size()); ++subset) {
        Plan plan;
        for (std::size_t i = 0; i < values.size(); ++i) {
            bool const moves = (subset >> i & 1) != 0;
            plan.fates[values[i].slot] = {
                .kind = moves ? FateKind::move : FateKind::keep, .pool = Pool::host};
        }
        Result<Forecast> const costs = forecast(request, request.budgets, plan);
        if (costs.ok() && costs->fits) {
            best_ns = std::min(best_ns, costs->step_ns);
        }
    }
    return best_ns;
}

TEST(Swapadvisor, on_chains_of_up_to_six_it_is_as_fast_as_the_best_subset) {
    for (std::int64_t const layers : {4, 6}) {
        for (double const rate : {0.3e9, 1e9}) {
            Trace const trace = uneven_chain(layers);
            Machine const machine = fast_machine(rate);
            Budgets const budgets{
                .device_bytes = peak_without_moves(trace) * 7 / 10, .host_bytes = 1_GiB};
            Result<Plan> const plan = make_plan(
                *parse_policy_choice("swapadvisor:population=12,generations=8"),
                trace,
                machine,
                budgets
            );
            ASSERT_TRUE(plan.ok()) << plan.error().message();
            EXPECT_EQ(
                plan->predicted_step_ns, fastest_of_all_subsets({trace, machine, budgets, {}})
            ) << layers
              << " at " << rate;
        }
    }
}

TEST(Swapadvisor, the_best_never_gets_worse_from_one_generation_to_the_next) {
    Trace const trace = uneven_chain(16);
    Machine const machine = fast_machine(0.5e9);
    Result<GeneticResult> const found = search_swaps(
        {trace,
         machine,
         {.device_bytes = peak_without_moves(trace) / 2, .host_bytes = 1_GiB},
         {{"seed", 3}, {"generations", 6}, {"population", 12}}}
    );
    ASSERT_TRUE(found.ok()) << found.error().message();
    ASSERT_EQ(found->best_costs.size(), 7U) << "no list is as fast as without a budget";
    EXPECT_TRUE(std::is_sorted(found->best_costs.rbegin(), found->best_costs.rend()));
    EXPECT_LT(found->best_costs.back(), found->best_costs.front());
}

TEST(Swapadvisor, in_the_last_tenth_of_its_generations_the_best_is_flat_within_a_percent) {
    Trace const trace = mixed_chain(24);
    Machine const machine = fast_machine(0.3e9);
    for (double const seed : {2, 3}) {
        Result<GeneticResult> const found = search_swaps(
            {trace,
             machine,
             {.device_bytes = peak_without_moves(trace) / 2, .host_bytes = 1_GiB},
             {{"seed", seed}, {"generations", 40}, {"population", 12}}}
        );
        ASSERT_TRUE(found.ok()) << found.error().message();
        ASSERT_EQ(found->best_costs.size(), 41U) << "no list is as fast as without a budget";
        std::int64_t const last_ns = found->best_costs.back().time_ns;
        EXPECT_GT(found->best_costs.front().time_ns, last_ns * 102 / 100) << "it found something";
        EXPECT_LE(found->best_costs[36].time_ns, last_ns * 101 / 100) << "seed " << seed;
    }
}

TEST(Swapadvisor, the_same_seed_is_the_same_plan) {
    Trace const trace = mixed_chain(32);
    auto const fates_of = [&](char const* choice) {
        Result<Plan> const plan =
            swapadvisor_of(choice, trace, 0.3e9, peak_without_moves(trace) / 2);
        return plan.ok() ? plan->fates : std::map<Slot, Fate>();
    };
    std::map<Slot, Fate> const fates = fates_of("swapadvisor:seed=4");
    EXPECT_EQ(fates.size(), 32U);
    EXPECT_TRUE(fates == fates_of("swapadvisor:seed=4"));
    EXPECT_FALSE(fates == fates_of("swapadvisor:seed=5"));
}

TEST(Swapadvisor, where_all_fits_nothing_moves) {
    for (std::int64_t const device_bytes : {std::int64_t{0}, 20 * kChainSetBytes}) {
        Result<Plan> const plan = swapadvisor_of("swapadvisor", chain(8), 1e10, device_bytes);
        ASSERT_TRUE(plan.ok()) << plan.error().message();
        EXPECT_TRUE(std::all_of(plan->fates.begin(), plan->fates.end(), [](auto const& each) {
            return each.second.kind == FateKind::keep;
        }));
    }
}

TEST(Swapadvisor, what_hides_is_found_by_the_first_lists) {
    Result<Plan> const plan = swapadvisor_of("swapadvisor", chain(8), 1e10, 4 * kChainSetBytes);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->predicted_step_ns, 8 * (kChainForwardNs + kChainBackwardNs));
}

TEST(Swapadvisor, what_the_host_has_no_room_for_goes_to_nvme) {
    Machine machine = fast_machine();
    machine.tiers.push_back({"nvme", Pool::nvme, 1_GiB});
    machine.links.push_back({Pool::device, Pool::nvme, 1e10, 1e10, 0, ""});
    machine.links.push_back({Pool::nvme, Pool::device, 1e10, 1e10, 0, ""});
    Result<Plan> const plan = make_plan(
        {"swapadvisor", {}},
        chain(12),
        machine,
        {.device_bytes = 4 * kChainSetBytes, .host_bytes = 2 * kChainSetBytes, .nvme_bytes = 1_GiB}
    );
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    auto const moved_to = [&](Pool pool) {
        return std::count_if(plan->fates.begin(), plan->fates.end(), [&](auto const& each) {
            return each.second.kind == FateKind::move && each.second.pool == pool;
        });
    };
    EXPECT_GT(moved_to(Pool::host), 0);
    EXPECT_GT(moved_to(Pool::nvme), 0);
    EXPECT_EQ(plan->predicted_step_ns, 12 * (kChainForwardNs + kChainBackwardNs));
}

TEST(Swapadvisor, what_cannot_fit_is_refused) {
    EXPECT_EQ(
        swapadvisor_of("swapadvisor", chain(8), 1e10, kChainSetBytes).error().code,
        Errc::out_of_memory
    );
}

}  // namespace
}  // namespace spillway
