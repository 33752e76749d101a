// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/auto_policy.h"

#include "policy/catalog.h"
#include "policy/chain_test.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

namespace spillway {
namespace {

constexpr std::int64_t kAutoChainNs = 8 * (kChainForwardNs + kChainBackwardNs);

Result<Plan> auto_plan(Trace const& trace, Machine const& machine, Budgets const& budgets) {
    return make_plan({"auto", {}}, trace, machine, budgets);
}

TEST(Auto, what_fits_stays) {
    Trace const trace = chain(8);
    Result<Plan> const plan =
        auto_plan(trace, fast_machine(), {peak_without_moves(trace), 1_GiB, 0});
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->policy, "auto (keep_all)");
    EXPECT_EQ(plan->predicted_step_ns, kAutoChainNs);
    EXPECT_EQ(plan->bound_step_ns, kAutoChainNs);
    EXPECT_EQ(count_of(*plan, FateKind::keep), std::ssize(trace.values));
}

// A start of the search may name no values: none of these moves or is made again where it cannot.
TEST(Auto, without_a_pool_its_plans_are_valid) {
    Trace const trace = chain_with_recipes(24, kChainForwardNs);
    Machine device_alone = fast_machine();
    std::erase_if(device_alone.tiers, [](MachineTier const& tier) {
        return tier.pool != Pool::device;
    });
    device_alone.links.clear();
    device_alone.groups.clear();
    std::int64_t const peak = peak_without_moves(trace);
    std::size_t made = 0;
    for (std::int64_t percent = 50; percent <= 100; percent += 5) {
        Result<Plan> const plan = auto_plan(trace, device_alone, {peak * percent / 100, 0, 0});
        made += plan.ok() ? 1 : 0;
        EXPECT_TRUE(plan.ok() || plan.error().code == Errc::out_of_memory)
            << percent << plan.error().message();
    }
    EXPECT_GT(made, 5U);
}

TEST(Auto, no_other_policy_is_quicker) {
    std::size_t compared = 0;
    for (Trace const& trace : {chain_with_recipes(6, kChainForwardNs), blocks(4)}) {
        std::int64_t const peak = peak_without_moves(trace);
        for (double const rate : {3e8, 3e9}) {
            Machine const machine = fast_machine(rate);
            for (std::int64_t const percent : {50, 75}) {
                Budgets const budgets{peak * percent / 100, 1_GiB, 0};
                Result<Plan> const ours = auto_plan(trace, machine, budgets);
                for (Policy const& policy : policies()) {
                    if (policy.make_plan == nullptr) {
                        continue;
                    }
                    Result<Plan> const other =
                        make_plan({std::string(policy.name), {}}, trace, machine, budgets);
                    if (other.ok()) {
                        ++compared;
                        ASSERT_TRUE(ours.ok()) << policy.name << ours.error().message();
                        ASSERT_LE(ours->predicted_step_ns, other->predicted_step_ns)
                            << policy.name << " of " << trace.name << rate << " " << percent;
                    }
                }
            }
        }
    }
    EXPECT_GT(compared, 80U);
}

TEST(Auto, it_says_whose_plan_it_was_and_what_no_plan_goes_below) {
    Trace const trace = blocks(8);
    Budgets const budgets{peak_without_moves(trace) * 2 / 3, 1_GiB, 0};
    Result<Plan> const plan = auto_plan(trace, fast_machine(1e9), budgets);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    std::string const whose = plan->policy.substr(0, plan->policy.find_first_of(",)"));
    EXPECT_EQ(whose.substr(0, 6), "auto (");
    EXPECT_NE(find_policy(whose.substr(6)), nullptr) << plan->policy;
    EXPECT_GE(plan->bound_step_ns, 8 * (kChainForwardNs + kChainBackwardNs));
    EXPECT_LE(plan->bound_step_ns, plan->predicted_step_ns);
}

TEST(Auto, the_same_request_gives_the_same_plan) {
    Trace const trace = blocks(8);
    Budgets const budgets{peak_without_moves(trace) / 2, 1_GiB, 0};
    Result<Plan> const one = auto_plan(trace, fast_machine(1e9), budgets);
    Result<Plan> const other = auto_plan(trace, fast_machine(1e9), budgets);
    ASSERT_TRUE(one.ok()) << one.error().message();
    EXPECT_EQ(*one, *other);
}

TEST(Auto, without_a_pool_nothing_moves) {
    Trace const trace = blocks(8);
    Budgets const budgets{peak_without_moves(trace) * 2 / 3, 0, 0};
    Result<Plan> const plan = auto_plan(trace, fast_machine(), budgets);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(count_of(*plan, FateKind::move), 0);
    Result<Plan> const rotor = make_plan({"rotor", {}}, trace, fast_machine(), budgets);
    ASSERT_TRUE(rotor.ok()) << rotor.error().message();
    EXPECT_LE(plan->predicted_step_ns, rotor->predicted_step_ns);
}

TEST(Auto, without_recipes_nothing_is_made_again) {
    Trace const trace = chain(8);
    Budgets const budgets{peak_without_moves(trace) / 2, 1_GiB, 0};
    Result<Plan> const plan = auto_plan(trace, fast_machine(1e9), budgets);
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(count_of(*plan, FateKind::recompute), 0);
}

TEST(Auto, where_no_plan_fits_it_says_what_is_missing) {
    Trace const trace = chain(8);
    Result<Plan> const plan =
        auto_plan(trace, fast_machine(), {peak_without_moves(trace) / 2, 0, 0});
    EXPECT_EQ(plan.error().code, Errc::out_of_memory);
    EXPECT_EQ(plan.error().message().substr(0, 41), "policy auto: no plan fits; under online: ");
}

TEST(Auto, it_asks_what_may_run) {
    Trace const trace = chain(8);
    Trace const large = chain(kMostSearchedValues + 1);
    Machine const machine = fast_machine();
    Budgets const host{0, 1_GiB, 0};
    auto const asks = [&](char const* name, Trace const& of, Budgets const& budgets) {
        return auto_asks(*find_policy(name), {of, machine, budgets, {}});
    };
    EXPECT_TRUE(asks("te", trace, host));
    EXPECT_TRUE(asks("swapadvisor", trace, host));
    EXPECT_FALSE(asks("swapadvisor", large, host));
    EXPECT_FALSE(asks("te", trace, {}));
    EXPECT_TRUE(asks("rotor", trace, {}));
    EXPECT_FALSE(asks("qpo", trace, host));
    EXPECT_FALSE(asks("auto", trace, host));
}

TEST(Auto, a_step_of_nothing_has_a_plan) {
    Trace const empty{.name = "empty", .values = {}, .points = {}};
    EXPECT_TRUE(auto_plan(empty, fast_machine(), {1'000'000, 1_GiB, 0}).ok());
    EXPECT_TRUE(auto_plan(empty, fast_machine(), {}).ok());
}

}  // namespace
}  // namespace spillway
