// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/rotor.h"

#include "base/random.h"
#include "policy/chain_test.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace spillway {
namespace {

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();

struct Numbers {
    std::uint64_t next = 0;
    std::int64_t below(std::int64_t end) {
        return static_cast<std::int64_t>(mixed(next++) % static_cast<std::uint64_t>(end));
    }
};

/// Sizes of at most 9 bytes, so that a slot can be a byte.
std::vector<Stage> random_stages(Numbers& random, std::size_t count) {
    std::vector<Stage> stages(count);
    for (std::size_t i = 0; i < count; ++i) {
        stages[i].input = ValueId{static_cast<std::int64_t>(i)};
        stages[i].input_bytes = 1 + random.below(4);
        stages[i].tape_bytes = random.below(10);
        stages[i].other_bytes = random.below(2);
        stages[i].beside_bytes = random.below(6);
        stages[i].input_ns = random.below(5);
        stages[i].tape_ns = random.below(20);
        stages[i].input_has_recipe = i > 0 && random.below(4) > 0;
    }
    return stages;
}

/// By trying all fates of the stages from `at` on.
void try_all(
    std::vector<Stage> const& stages,
    std::int64_t room_bytes,
    std::size_t at,
    std::vector<StageFate>& fates,
    std::int64_t& best_ns
) {
    if (at == stages.size()) {
        ChainCosts const costs = chain_costs(stages, fates);
        best_ns = costs.peak_bytes <= room_bytes ? std::min(best_ns, costs.recompute_ns) : best_ns;
        return;
    }
    for (StageFate const fate : {StageFate::keep, StageFate::checkpoint, StageFate::inner}) {
        bool const may_be =
            fate != StageFate::inner || (at > 0 && fates[at - 1] != StageFate::keep);
        if (may_be) {
            fates[at] = fate;
            try_all(stages, room_bytes, at + 1, fates, best_ns);
        }
    }
}

std::int64_t least_time(std::vector<Stage> const& stages, std::int64_t room_bytes) {
    std::int64_t best_ns = kAny;
    std::vector<StageFate> fates(stages.size());
    try_all(stages, room_bytes, 0, fates, best_ns);
    return best_ns;
}

TEST(Rotor, is_as_quick_as_the_best_of_all_on_random_chains) {
    Numbers random{7};
    int without = 0;
    for (int round = 0; round < 60; ++round) {
        std::size_t const count = 1 + static_cast<std::size_t>(random.below(8));
        std::vector<Stage> const stages = random_stages(random, count);
        std::int64_t all_bytes = 0;
        for (Stage const& stage : stages) {
            all_bytes += whole_bytes(stage);
        }
        std::int64_t const room = all_bytes / 3 + random.below(all_bytes);
        std::int64_t const best = least_time(stages, room);
        auto const fates = rotor_fates(stages, room, kAny, 1000);
        ASSERT_EQ(fates.has_value(), best != kAny) << "round " << round;
        if (!fates) {
            ++without;
            continue;
        }
        EXPECT_LE(chain_costs(stages, *fates).peak_bytes, room) << "round " << round;
        EXPECT_EQ(chain_costs(stages, *fates).recompute_ns, best) << "round " << round;
    }
    EXPECT_GT(without, 3);
    EXPECT_LT(without, 40);
}

TEST(Rotor, with_room_for_all_nothing_is_made_again) {
    std::vector<Stage> const stages = stages_of(StepView(blocks(12)));
    auto const fates =
        rotor_fates(stages, 2 * 12 * (kBlockInputBytes + kBlockTapeBytes), kAny, 500);
    ASSERT_TRUE(fates);
    EXPECT_EQ(chain_costs(stages, *fates).recompute_ns, 0);
}

TEST(Rotor, no_segment_is_made_again_that_is_larger_than_it_may_be) {
    std::vector<Stage> const stages = stages_of(StepView(blocks(12)));
    std::int64_t const two = 2 * (kBlockInputBytes + kBlockTapeBytes);
    auto const fates = rotor_fates(stages, 18 * kBlockInputBytes, two, 18);
    ASSERT_TRUE(fates);
    for (std::size_t i = 2; i < fates->size(); ++i) {
        EXPECT_FALSE((*fates)[i] == StageFate::inner && (*fates)[i - 1] == StageFate::inner) << i;
    }
}

TEST(Rotor, fills_its_budget_and_makes_no_more_again_than_that_needs) {
    Trace const trace = blocks(12);
    Machine const machine{
        .name = "alone", .tiers = {{"device", Pool::device, 1_GiB}}, .links = {}, .groups = {}};
    std::int64_t last_ns = 0;
    for (std::int64_t const sets : {50, 40, 30, 24, 20}) {
        std::int64_t const budget = sets * kBlockInputBytes;
        Result<Plan> const plan =
            make_plan({"rotor", {}}, trace, machine, {.device_bytes = budget});
        ASSERT_TRUE(plan.ok()) << sets << ": " << plan.error().message();
        EXPECT_LE(plan->predicted_peak_bytes, budget);
        EXPECT_GE(plan->predicted_step_ns, last_ns) << sets;
        last_ns = plan->predicted_step_ns;
    }
    EXPECT_GT(last_ns, 12 * (kChainForwardNs + kChainBackwardNs));
    EXPECT_LT(last_ns, 12 * (kChainForwardNs + kChainBackwardNs + kBlockTapeNs + kBlockInputNs));
}

}  // namespace
}  // namespace spillway
