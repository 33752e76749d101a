// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/given_plan.h"

#include "base/units.h"
#include "test_paths.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace spillway {
namespace {

constexpr char const* kFates =
    R"("device_bytes": 0, "predicted_step_ns": 5, "predicted_peak_bytes": 7, "bound_step_ns": 0,
    "fates": [{"slot":{"producer":"a","output":0,"occurrence":0},"fate":"move","pool":"nvme"}]})";

class GivenPlan : public testing::Test {
  protected:
    GivenPlan() { std::filesystem::create_directories(folder); }
    ~GivenPlan() override { std::filesystem::remove_all(folder); }

    /// Options with a plan of this text.
    SessionOptions with(std::string const& text) const {
        std::ofstream(folder + "/plan.json") << text;
        return {.device_budget_bytes = 1_MiB, .plan = folder + "/plan.json"};
    }

    std::string const folder = build_folder() + "/scratch/given_plan." + std::to_string(::getpid());
};

std::string why_no_plan(SessionOptions const& options) {
    std::optional<OptionFault> const wrong = check_options(options);
    EXPECT_TRUE(!wrong || wrong->option == "plan");
    return wrong ? words_of(*wrong, Face::program) : "";
}

TEST_F(GivenPlan, is_read_and_called_by_its_policy_or_its_file) {
    std::optional<Plan> plan;
    EXPECT_EQ(read_given_plan({}, plan), std::nullopt);
    EXPECT_FALSE(plan);
    SessionOptions const named =
        with(std::string(R"({"spillway_plan": 3, "policy": "te:layers=2",)") + kFates);
    EXPECT_EQ(why_no_plan(named), "");
    ASSERT_EQ(read_given_plan(named, plan), std::nullopt);
    EXPECT_EQ(plan->policy, "te:layers=2");
    EXPECT_EQ(plan->predicted_peak_bytes, 7);
    SessionOptions const by_hand =
        with(std::string(R"({"spillway_plan": 3, "policy": "",)") + kFates);
    ASSERT_EQ(read_given_plan(by_hand, plan), std::nullopt);
    EXPECT_EQ(plan->policy, by_hand.plan);
}

TEST_F(GivenPlan, its_codecs_exist_and_lose_nothing_unasked) {
    auto const coded = [&](std::string const& codec) {
        std::string text = std::string(R"({"spillway_plan": 3, "policy": "",)") + kFates;
        std::string const pool = R"("pool":"nvme")";
        std::size_t const at = text.find(pool);
        EXPECT_NE(at, std::string::npos);
        return with(text.insert(at + pool.size(), R"(, "codec": ")" + codec + "\""));
    };
    SessionOptions options = coded("affine4");
    EXPECT_NE(
        why_no_plan(options).find(
            "what it moves would lose precision with affine4; pass --lossy to allow it"
        ),
        std::string::npos
    );
    options.lossy = true;
    EXPECT_EQ(why_no_plan(options), "");
    EXPECT_EQ(why_no_plan(coded("mask")), "");
    EXPECT_NE(why_no_plan(coded("mp3")).find("mp3: no such codec"), std::string::npos);
    EXPECT_NE(
        why_no_plan(coded("lossless")).find("lossless: has no size that is known before"),
        std::string::npos
    );
}

TEST_F(GivenPlan, a_file_that_holds_none_is_refused_by_key_and_reason) {
    SessionOptions absent{.device_budget_bytes = 1_MiB, .plan = folder + "/absent"};
    EXPECT_EQ(why_no_plan(absent), "No such file or directory");
    EXPECT_EQ(check_options(absent)->code, OptionCode::not_readable);
    EXPECT_EQ(
        words_of(*check_options(absent), Face::cpp),
        "'" + folder + "/absent': No such file or directory"
    );
    std::string const whole = std::string(R"({"spillway_plan": 3, "policy": "",)") + kFates;
    EXPECT_NE(why_no_plan(with(whole.substr(0, whole.size() / 2))), "");
    std::string const later = std::string(R"({"spillway_plan": 9, "policy": "",)") + kFates;
    EXPECT_NE(why_no_plan(with(later)).find("is of format version 9"), std::string::npos);
    std::string const other = std::string(R"({"spillway_plan": 3, "polity": "",)") + kFates;
    EXPECT_NE(why_no_plan(with(other)).find("polity"), std::string::npos);
    EXPECT_EQ(why_no_plan({.device_budget_bytes = 1_MiB, .plan = folder}), "a folder, not a file");
}

TEST_F(GivenPlan, goes_with_a_budget_and_without_another_policy) {
    SessionOptions options = with(std::string(R"({"spillway_plan": 3, "policy": "",)") + kFates);
    options.policy = "te:layers=2";
    EXPECT_EQ(
        why_no_plan(options),
        "it stands in place of --policy, which is 'te:layers=2'; leave one of the two out"
    );
    options.policy = "keep_all";
    EXPECT_EQ(check_options(options)->code, OptionCode::excludes_other);
    options.policy = "online";
    options.device_budget_bytes = 0;
    EXPECT_EQ(why_no_plan(options), "it needs --device-budget, which is not set");
}

TEST(GivenPlans, values_have_to_go_where_a_place_is) {
    Plan plan;
    SessionOptions const options{.plan = "plan.json"};
    EXPECT_EQ(check_given_plan(options, plan, {}), std::nullopt);
    EXPECT_FALSE(makes_again(plan));
    plan.fates[{"a", 0, 0}] = {.kind = FateKind::keep};
    plan.fates[{"b", 0, 0}] = {.kind = FateKind::recompute};
    EXPECT_EQ(check_given_plan(options, plan, {}), std::nullopt);
    EXPECT_TRUE(makes_again(plan));
    SessionOptions off = options;
    off.recompute = "off";
    EXPECT_EQ(check_given_plan(off, plan, {})->code, OptionCode::makes_again);
    plan.fates[{"c", 0, 0}] = {.kind = FateKind::move, .pool = Pool::nvme};
    EXPECT_EQ(check_given_plan(options, plan, {.nvme = true}), std::nullopt);
    std::optional<OptionFault> const no_nvme = check_given_plan(options, plan, {.host = true});
    ASSERT_TRUE(no_nvme);
    EXPECT_EQ(
        words_of(*no_nvme, Face::program),
        "'plan.json' moves saved tensors to NVMe, and there is no folder for them (--nvme)"
    );
    plan.fates[{"c", 0, 0}].pool = Pool::host;
    EXPECT_EQ(check_given_plan(options, plan, {.host = true}), std::nullopt);
    std::optional<OptionFault> const no_host = check_given_plan(options, plan, {.nvme = true});
    ASSERT_TRUE(no_host);
    EXPECT_EQ(
        words_of(*no_host, Face::program),
        "'plan.json' moves saved tensors to host memory, and there is none for them "
        "(--host-budget)"
    );
}

}  // namespace
}  // namespace spillway
