// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/pofo.h"

#include "policy/chain_test.h"
#include "policy/rotor.h"

#include <gtest/gtest.h>

#include <limits>

namespace spillway {
namespace {

constexpr std::int64_t kAllAtOnce = std::numeric_limits<std::int64_t>::max();

PofoAnswer answer_of(std::vector<Stage> const& stages, std::int64_t room_bytes, double rate) {
    auto const answer = pofo_fates(
        {.stages = stages,
         .room_bytes = room_bytes,
         .segment_bytes = kAllAtOnce,
         .rate = rate,
         .slots = 24}
    );
    return answer ? *answer : PofoAnswer{};
}

TEST(Pofo, without_a_link_it_is_rotor) {
    std::vector<Stage> const stages = stages_of(StepView(blocks(8)));
    for (std::int64_t const sets : {40, 24, 18, 14}) {
        std::int64_t const room = sets * kBlockInputBytes;
        auto const rotor = rotor_fates(stages, room, kAllAtOnce, sets);
        ASSERT_TRUE(rotor) << sets;
        auto const pofo = pofo_fates(
            {.stages = stages,
             .room_bytes = room,
             .segment_bytes = kAllAtOnce,
             .rate = 0,
             .slots = sets}
        );
        ASSERT_TRUE(pofo) << sets;
        EXPECT_EQ(
            static_cast<std::int64_t>(pofo->extra_ns), chain_costs(stages, *rotor).recompute_ns
        ) << sets;
    }
}

TEST(Pofo, a_fast_link_takes_what_rotor_would_make_again_and_a_slow_one_part_of_it) {
    std::vector<Stage> const stages = stages_of(StepView(blocks(8)));
    std::int64_t const room = 18 * kBlockInputBytes;
    double const none = answer_of(stages, room, 0).extra_ns;
    double const slow = answer_of(stages, room, 1.5e9).extra_ns;
    double const fast = answer_of(stages, room, 1e11).extra_ns;
    EXPECT_GT(none, 0);
    EXPECT_LT(slow, none * 2 / 3) << "the authors: a third less overhead";
    EXPECT_LT(fast, slow);
}

TEST(Pofo, its_plan_is_simulated_no_slower_than_rotor_s) {
    Trace const trace = blocks(12);
    for (double const rate : {2e8, 1e9, 1e10}) {
        Machine const machine = fast_machine(rate);
        Budgets const budgets{.device_bytes = 24 * kBlockInputBytes, .host_bytes = 1_GiB};
        Result<Plan> const rotor = make_plan({"rotor", {}}, trace, machine, budgets);
        Result<Plan> const pofo = make_plan({"pofo", {}}, trace, machine, budgets);
        ASSERT_TRUE(rotor.ok()) << rotor.error().message();
        ASSERT_TRUE(pofo.ok()) << pofo.error().message();
        EXPECT_LE(pofo->predicted_peak_bytes, budgets.device_bytes);
        EXPECT_LE(pofo->predicted_step_ns, rotor->predicted_step_ns) << rate;
    }
}

TEST(Pofo, nothing_fits_in_no_room) {
    std::vector<Stage> const stages = stages_of(StepView(blocks(8)));
    EXPECT_TRUE(answer_of(stages, kBlockInputBytes, 1e9).fates.empty());
}

}  // namespace
}  // namespace spillway
