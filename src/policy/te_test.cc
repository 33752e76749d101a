// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/te.h"

#include "base/units.h"
#include "policy/chain_test.h"
#include "simulator/simulator.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

Result<Plan> plan_of(Trace const& trace, std::string const& choice, std::int64_t device_bytes = 0) {
    return make_plan(
        *parse_policy_choice(choice),
        trace,
        fast_machine(),
        {.device_bytes = device_bytes, .host_bytes = 1_GiB}
    );
}

TEST(Te, six_layers_of_which_three_leave) {
    Trace const trace = chain(6);
    Result<Plan> const plan = plan_of(trace, "te:layers=3");
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    for (std::int32_t i = 0; i < 3; ++i) {
        Fate const& fate = plan->fates.at(of_layer(i));
        EXPECT_EQ(fate.kind, FateKind::move);
        EXPECT_EQ(fate.leaves, of_layer(2 + i)) << "the last save before layer L - N + i";
        EXPECT_EQ(fate.returns, of_layer(2 + i)) << "the first need of layer L - 1 - N + i";
    }
    for (std::int32_t i = 3; i < 6; ++i) {
        EXPECT_EQ(plan->fates.at(of_layer(i)).kind, FateKind::keep);
    }
    EXPECT_EQ(plan->policy, "te:layers=3");
}

TEST(Te, at_most_l_minus_n_sets_are_on_the_device_also_without_a_budget) {
    for (std::int64_t const leaving : {1, 3, 4, 5}) {
        Result<Plan> const plan = plan_of(chain(6), "te:layers=" + std::to_string(leaving));
        ASSERT_TRUE(plan.ok()) << plan.error().message();
        EXPECT_EQ(plan->predicted_peak_bytes, kChainFloorBytes + (6 - leaving) * kChainSetBytes)
            << leaving;
    }
}

TEST(Te, its_transfers_hide_where_the_link_is_fast) {
    Result<Plan> const plan = plan_of(chain(6), "te");
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->predicted_step_ns, 6 * (kChainForwardNs + kChainBackwardNs));
}

TEST(Te, what_it_cannot_do_is_said) {
    EXPECT_EQ(
        plan_of(chain(2), "te").error().message(),
        "policy te: it needs a model of at least three repeated layers, and the step shows 2 (h.0, "
        "h.1)"
    );
    EXPECT_EQ(
        plan_of(chain(6), "te:layers=6").error().message(),
        "policy te: layers is 6, and of 6 layers at most 5 can leave"
    );
    EXPECT_EQ(plan_of(chain(6), "te:layers=1", kChainSetBytes).error().code, Errc::out_of_memory);
}

}  // namespace
}  // namespace spillway
