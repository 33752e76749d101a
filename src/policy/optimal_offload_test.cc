// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/optimal_offload.h"

#include "policy/chain_test.h"
#include "policy/transfer_times.h"
#include "simulator/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kStepNs = kChainForwardNs + kChainBackwardNs;

Result<Plan> plan_of(std::int64_t layers, std::int64_t device_bytes, double rate) {
    return make_plan(
        {"optimal_offload", {}},
        chain(layers),
        fast_machine(rate),
        {.device_bytes = device_bytes, .host_bytes = 1_GiB}
    );
}

TEST(OptimalOffload, the_bound_is_the_compute_where_nothing_has_to_leave_or_links_are_fast) {
    EXPECT_EQ(optimal_offload_bound(chain(8), 20 * kChainSetBytes, 1e9, 1e9), 8 * kStepNs);
    EXPECT_EQ(optimal_offload_bound(chain(8), 4 * kChainSetBytes, 1e12, 1e12), 8 * kStepNs);
}

TEST(OptimalOffload, on_a_slow_link_it_is_what_has_to_cross_less_what_hides) {
    // 8 sets and half a set of floor under 4.5 sets: 4 sets have to be away when the last is saved.
    // Forward: 0.1 sets a ms. Set 4 is saved at 5 ms, when 0.4 of set 0 can be away and 1 has to.
    std::int64_t const budget = 4 * kChainSetBytes + kChainFloorBytes;
    std::optional<std::int64_t> const slow = optimal_offload_bound(chain(8), budget, 1e8, 1e12);
    ASSERT_TRUE(slow);
    EXPECT_NEAR(static_cast<double>(*slow), 8e6 + 16e6 + (40e6 - 7e6), 1.1e6);
}

TEST(OptimalOffload, what_is_no_chain_has_no_bound) {
    Trace trace = chain(4);
    std::swap(trace.points[8].needed, trace.points[9].needed);
    std::swap(trace.points[8].dropped, trace.points[9].dropped);
    EXPECT_EQ(optimal_offload_bound(trace, kChainSetBytes, 1e9, 1e9), std::nullopt);
}

/// The fastest of all subsets that leave, with the same placement of their transfers.
std::int64_t by_enumeration(std::int64_t layers, std::int64_t device_bytes, double rate) {
    Trace const trace = chain(layers);
    Machine const machine = fast_machine(rate);
    StepView const step(trace);
    std::int64_t best_ns = INT64_MAX;
    for (std::uint64_t subset = 0; subset < (1ULL << layers); ++subset) {
        std::vector<ValueId> moved;
        for (std::int64_t i = 0; i < layers; ++i) {
            if ((subset >> i & 1) != 0) {
                moved.push_back(ValueId{i});
            }
        }
        if (peak_without(step, moved) > device_bytes) {
            continue;
        }
        Plan plan;
        place_transfers(step, moved, transfer_rates(machine, Pool::host), Pool::host, plan);
        keep_the_rest(step, plan);
        Result<SimulationResult> const run = simulate(
            trace,
            machine,
            {.chooser = ChooserKind::planned, .device_bytes = device_bytes, .host_bytes = 1_GiB},
            &plan,
            {.order = OrderHint::exact}
        );
        if (run.ok() && run->ok) {
            best_ns = std::min(best_ns, run->total_ns);
        }
    }
    return best_ns;
}

TEST(OptimalOffload, on_chains_of_up_to_eight_it_is_as_fast_as_the_best_subset) {
    for (std::int64_t const layers : {4, 6, 8}) {
        for (double const rate : {0.4e9, 1e9, 3e9}) {
            std::int64_t const budget = (layers / 2 + 1) * kChainSetBytes;
            Result<Plan> const plan = plan_of(layers, budget, rate);
            ASSERT_TRUE(plan.ok()) << plan.error().message();
            std::int64_t const best_ns = by_enumeration(layers, budget, rate);
            EXPECT_LE(plan->predicted_step_ns, best_ns * 101 / 100) << layers << " at " << rate;
            EXPECT_LE(plan->bound_step_ns, best_ns) << layers << " at " << rate;
        }
    }
}

// The bound loads as soon as the first set is dropped. The simulator's first load begins one layer
// later, when there is room for two.
TEST(OptimalOffload, on_long_chains_it_is_within_a_percent_of_its_bound_or_a_layers_backward) {
    for (std::int64_t const layers : {32, 48, 96}) {
        for (std::int64_t const kept : {layers / 10, layers / 4, layers / 2, layers * 3 / 4}) {
            for (double const rate : {0.05e9, 0.1e9, 0.25e9, 0.5e9, 1e9, 2e9}) {
                std::int64_t const budget = kept * kChainSetBytes + kChainFloorBytes;
                Result<Plan> const plan = plan_of(layers, budget, rate);
                ASSERT_TRUE(plan.ok()) << plan.error().message();
                EXPECT_GE(plan->bound_step_ns, layers * kStepNs);
                std::int64_t const more = std::max(plan->bound_step_ns / 100, kChainBackwardNs);
                EXPECT_LE(plan->predicted_step_ns, plan->bound_step_ns + more)
                    << layers << " layers, " << kept << " kept, at " << rate;
            }
        }
    }
}

TEST(OptimalOffload, half_a_set_that_holds_nothing_costs_no_percent_where_the_link_is_quick) {
    for (double const rate : {0.5e9, 2e9}) {
        Result<Plan> const plan = plan_of(48, 16 * kChainSetBytes, rate);
        ASSERT_TRUE(plan.ok()) << plan.error().message();
        EXPECT_LE(plan->predicted_step_ns, plan->bound_step_ns * 101 / 100) << rate;
    }
}

TEST(OptimalOffload, with_two_pools_no_bound_is_claimed) {
    Machine machine = fast_machine(1e8);
    machine.tiers.push_back({"nvme", Pool::nvme, 1_GiB});
    machine.links.push_back({Pool::device, Pool::nvme, 1e10, 1e10, 0, ""});
    machine.links.push_back({Pool::nvme, Pool::device, 1e10, 1e10, 0, ""});
    Result<Plan> const plan = make_plan(
        {"optimal_offload", {}},
        chain(8),
        machine,
        {.device_bytes = 4 * kChainSetBytes, .host_bytes = 100, .nvme_bytes = 1_GiB}
    );
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->bound_step_ns, 0);
}

}  // namespace
}  // namespace spillway
