// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/planner.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

std::string refusal_of(std::string_view text) {
    Result<PolicyChoice> const choice = parse_policy_choice(text);
    return choice.ok() ? "" : choice.error().message();
}

TEST(Planner, a_choice_is_a_name_and_numbers) {
    EXPECT_EQ(*parse_policy_choice("te"), (PolicyChoice{"te", {}}));
    EXPECT_EQ(*parse_policy_choice("te:layers=8"), (PolicyChoice{"te", {{"layers", 8}}}));
    EXPECT_EQ(to_text(*parse_policy_choice("te:layers=8")), "te:layers=8");
    EXPECT_EQ(*parse_policy_choice("online"), (PolicyChoice{"online", {}}));
}

TEST(Planner, a_choice_that_is_none_is_one_line_that_says_what_there_is) {
    EXPECT_EQ(refusal_of("best").substr(0, 36), "policy: no policy 'best'; there are ");
    EXPECT_EQ(refusal_of("te:depth=8"), "policy: 'te': no parameter 'depth'; it has layers");
    EXPECT_EQ(refusal_of("te:"), "policy: 'te': no parameter ''; it has layers");
    EXPECT_EQ(
        refusal_of("te:layers=many"),
        "policy: 'te': layers is 'many', not a whole number from 0 to 1000000"
    );
    EXPECT_EQ(
        refusal_of("te:layers=2.5"),
        "policy: 'te': layers is '2.5', not a whole number from 0 to 1000000"
    );
    EXPECT_EQ(
        refusal_of("te:layers=-1"),
        "policy: 'te': layers is '-1', not a whole number from 0 to 1000000"
    );
    EXPECT_EQ(refusal_of("te:layers=1,layers=2"), "policy: 'te': layers is given twice");
    EXPECT_NE(refusal_of("online:x=1"), "");
}

TEST(Planner, a_plan_says_who_made_it_and_what_it_costs) {
    Result<Plan> const plan = make_plan(
        *parse_policy_choice("te:layers=2"),
        chain(5),
        fast_machine(),
        {.device_bytes = 10 * kChainSetBytes, .host_bytes = 10 * kChainSetBytes}
    );
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    EXPECT_EQ(plan->policy, "te:layers=2");
    EXPECT_EQ(plan->device_bytes, 10 * kChainSetBytes);
    EXPECT_EQ(plan->predicted_step_ns, 5 * (kChainForwardNs + kChainBackwardNs));
    EXPECT_EQ(plan->predicted_peak_bytes, kChainFloorBytes + 3 * kChainSetBytes);
}

TEST(Planner, an_error_names_options_as_the_one_who_asks_does) {
    Budgets const budgets{
        .device_bytes = kChainFloorBytes + kChainSetBytes};  // no place to move to
    auto const why = [&](Face face) {
        Result<Plan> const plan =
            make_plan({"auto", {}}, chain(5), fast_machine(), budgets, nullptr, face);
        return plan.ok() ? "there is a plan" : plan.error().message();
    };
    EXPECT_NE(why(Face::python).find("nvme=, or host_budget="), std::string::npos)
        << why(Face::python);
    EXPECT_NE(why(Face::program).find("--nvme, or --host-budget"), std::string::npos)
        << why(Face::program);
}

TEST(Planner, what_no_plan_can_be_made_of_is_refused) {
    PolicyChoice const te{"te", {}};
    Budgets const budgets{.device_bytes = 0, .host_bytes = 1'000};
    EXPECT_EQ(
        make_plan({"online", {}}, chain(5), fast_machine(), budgets).error().code,
        Errc::bad_argument
    );
    EXPECT_EQ(
        make_plan(te, chain(5), fast_machine(), {}).error().message(),
        "policy te: it moves, and neither a host nor an NVMe budget is given; auto and rotor need "
        "neither"
    );
    EXPECT_EQ(
        make_plan(te, chain(5), fast_machine(), {.nvme_bytes = 1'000}).error().message(),
        "policy te: an NVMe budget is given, and the machine has no NVMe or no link both ways"
    );
    Machine no_way_back = fast_machine();
    no_way_back.links.pop_back();
    EXPECT_EQ(make_plan(te, chain(5), no_way_back, budgets).error().code, Errc::unsupported);
    Trace broken = chain(5);
    broken.values[0].size_bytes = -1;
    EXPECT_EQ(make_plan(te, broken, fast_machine(), budgets).error().code, Errc::bad_argument);
    EXPECT_FALSE(make_plan(te, chain(5), Machine(), budgets).ok());
}

}  // namespace
}  // namespace spillway
