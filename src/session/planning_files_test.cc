// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/chain_test.h"
#include "session/input_files.h"
#include "spillway/planning.h"
#include "test_paths.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace spillway {
namespace {

class PlanningOfFiles : public testing::Test {
  protected:
    void SetUp() override {
        folder_ = std::filesystem::path(build_folder()) / "scratch" /
                  ("planning_files_" + std::to_string(::getpid()));
        std::filesystem::create_directories(folder_);
        files_ = {folder_ / "trace.json", folder_ / "machine.json"};
        std::ofstream(files_.trace) << to_json_text(chain(8));
        std::ofstream(files_.machine) << to_json_text(fast_machine(1e9));
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    [[nodiscard]] PlanText plan(std::string const& policy) const {
        Result<PlanText> text = plan_of_files(files_, policy, {.device_bytes = 4 * kChainSetBytes});
        EXPECT_TRUE(text.ok()) << text.error().message();
        return text.ok() ? *text : PlanText{};
    }
    [[nodiscard]] Plan plan_in(PlanText const& text) const {
        std::ofstream(folder_ / "plan.json") << text.json;
        return *read_plan(folder_ / "plan.json");
    }

    std::filesystem::path folder_;
    PlanningFiles files_;
};

TEST_F(PlanningOfFiles, a_plan_with_a_bound_says_how_far_it_is_from_it) {
    PlanText const text = plan("auto");
    Plan const made = plan_in(text);
    ASSERT_GT(made.bound_step_ns, 0);
    auto const step = static_cast<double>(made.predicted_step_ns);
    auto const bound = static_cast<double>(made.bound_step_ns);
    std::string const words = fmt::format(
        " with nothing moved, no plan takes less than {:.3f} s (gap {:.1f} %)",
        bound / 1e9,
        100 * (step - bound) / bound
    );
    EXPECT_TRUE(text.summary.ends_with(words)) << text.summary;
}

TEST_F(PlanningOfFiles, a_bound_of_moves_is_none_of_recomputes) {
    PlanText const text = plan("optimal_offload");
    ASSERT_GT(plan_in(text).bound_step_ns, 0);
    EXPECT_NE(text.summary.find(", no plan without recomputes takes less than "), std::string::npos)
        << text.summary;
}

TEST_F(PlanningOfFiles, a_plan_without_a_bound_says_nothing_of_one) {
    PlanText const text = plan("tba");
    EXPECT_EQ(plan_in(text).bound_step_ns, 0);
    EXPECT_TRUE(text.summary.ends_with(" with nothing moved")) << text.summary;
}

}  // namespace
}  // namespace spillway
