// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a plan foretells of a step, and what the step takes. In virtual time operators and copies
// take as long as they are told, on the machine that the plan is made for: what differs is the
// runtime's order, not a clock.

#include "late/test_support.h"
#include "spillway/planning.h"
#include "spillway/session.h"

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace late {
namespace {

constexpr std::int64_t kForetoldLayers = 12;
constexpr std::int64_t kForetoldRows = 256;
constexpr std::int64_t kForetoldWidth = 64;
constexpr int kForetoldSteps = 4;
constexpr double kForetoldBar = 0.01;
constexpr double kForetoldPeakBar = 1.03;

/// A run makes one or two values of the last layers less again than the simulation: their recipes
/// are known too late for that.
constexpr double kForetoldRecipesBar = 0.03;

/// Nanoseconds that a byte takes. What a layer saves takes longer to leave than its forward, so
/// that plans differ, and some wait. A copy's bytes count twice: it reads and writes them.
constexpr double kProductNs = 4;
constexpr double kElementwiseNs = 0.5;
constexpr double kCopyNs = 5;

std::int64_t foretold_duration(std::string_view op, std::int64_t size_bytes) {
    double const ns_a_byte = op.starts_with("copy_d2h") || op.starts_with("copy_h2d") ? kCopyNs
                             : op.find("mm") != std::string_view::npos                ? kProductNs
                                                                       : kElementwiseNs;
    return static_cast<std::int64_t>(ns_a_byte * static_cast<double>(size_bytes));
}

class ForetoldRig : public LateTest {
  protected:
    ForetoldRig() {
        configure({.mode = Mode::virtual_time, .duration = foretold_duration, .poll_ns = 1});
        std::filesystem::create_directories(folder_);
        double const rate = 1e9 / (2 * kCopyNs);
        auto const link = [&](char const* from, char const* to) {
            return nlohmann::json{
                {"from", from},
                {"to", to},
                {"rate_bytes_per_s", rate},
                {"both_ways_rate_bytes_per_s", rate},
                {"latency_ns", 0}};
        };
        nlohmann::json const machine{
            {"spillway_machine", 2},
            {"name", "late"},
            {"tiers",
             {{{"name", "device"}, {"pool", "device"}, {"capacity_bytes", 1 << 30}},
              {{"name", "pinned"}, {"pool", "host"}, {"capacity_bytes", 1 << 30}}}},
            {"links", {link("device", "host"), link("host", "device")}},
            {"groups", nlohmann::json::array()}};
        std::ofstream(machine_) << machine.dump();
    }
    ~ForetoldRig() override { std::filesystem::remove_all(folder_); }

    struct Ran {
        std::int64_t step_ns = 0;  ///< of the last step
        std::int64_t peak_bytes = 0;
    };

    /// Trains. `trace`: a file for the second step's.
    Ran train(spillway::SessionOptions options, std::string const& trace = {}) const {
        options.device = "late";
        options.min_value_bytes = 1024;
        at::manual_seed(1);
        auto session = spillway::Session::open(options);
        std::vector<at::Tensor> weights;
        for (std::int64_t i = 0; i < 2 * kForetoldLayers; ++i) {
            at::Tensor const drawn = at::randn({kForetoldWidth, kForetoldWidth}) / 8;
            weights.push_back(drawn.to(device()).requires_grad_());
        }
        session->own(weights);
        if (!trace.empty()) {
            session->trace(trace);
        }
        at::Tensor const input = at::randn({kForetoldRows, kForetoldWidth}).to(device());
        Ran ran;
        for (int step = 0; step < kForetoldSteps; ++step) {
            wait_idle();
            std::int64_t const begin_ns = virtual_now();
            run_step(*session, weights, input, step);
            wait_idle();
            ran.step_ns = virtual_now() - begin_ns;
        }
        EXPECT_EQ(all_reports(), "");
        ran.peak_bytes = session->report().plan.peak_bytes;
        return ran;
    }

    static void run_step(
        spillway::Session& session,
        std::vector<at::Tensor> const& weights,
        at::Tensor const& input,
        int step
    ) {
        for (at::Tensor const& weight : weights) {
            weight.mutable_grad() = at::Tensor();
        }
        session.phase(spillway::Phase::forward, step);
        at::Tensor loss;
        {
            spillway::Recording const recording(session);
            at::Tensor x = input;
            for (std::size_t i = 0; i < weights.size(); i += 2) {
                x = x + at::mm(at::gelu(at::mm(x, weights[i])), weights[i + 1]);
            }
            loss = x.mul(x).mean();
        }
        session.phase(spillway::Phase::backward, step);
        loss.backward();
    }

    std::string const folder_ =
        testing::TempDir() + "foretold_on_late_" + std::to_string(::getpid());
    std::string const trace_ = folder_ + "/trace.json";
    std::string const machine_ = folder_ + "/machine.json";
    std::string const plan_ = folder_ + "/plan.json";
};

class Foretold : public ForetoldRig, public testing::WithParamInterface<std::string> {};
using ForetoldRecipes = ForetoldRig;

/// The program runs ahead, so what the host's clock says of an operator is next to nothing.
TEST_F(ForetoldRecipes, take_what_the_device_took) {
    spillway::SessionOptions options;
    options.policy = "recompute_all";
    options.device_budget_bytes = 1 << 29;
    (void)train(options, trace_);
    std::ifstream in(trace_);
    auto const trace = nlohmann::json::parse(in);
    double const value = sizeof(float) * kForetoldRows * kForetoldWidth;
    double const weight = sizeof(float) * kForetoldWidth * kForetoldWidth;
    double const gelu_ns = kElementwiseNs * 2 * value;
    double const product_ns = kProductNs * (2 * value + weight);
    double const sum_ns = kElementwiseNs * 3 * value;
    std::map<std::string, double> const took{
        {"GeluBackward0", gelu_ns},
        {"MmBackward0", product_ns},
        {"AddBackward0", product_ns + sum_ns}};
    std::map<std::string, int> recipes;
    std::set<double> checking_ns;  // all values are as large
    for (auto const& each : trace["values"]) {
        if (each.contains("recipe")) {
            auto const maker = each["slot"]["producer"].get<std::string>();
            ++recipes[maker];
            checking_ns.insert(each["recipe"]["duration_ns"].get<double>() - took.at(maker));
        }
    }
    ASSERT_EQ(checking_ns.size(), 1U);
    EXPECT_GE(*checking_ns.begin(), 2 * kElementwiseNs * value) << "a checksum reads the value";
    EXPECT_LE(*checking_ns.begin(), 8 * kElementwiseNs * value);
    EXPECT_EQ(recipes["GeluBackward0"], kForetoldLayers);
    EXPECT_EQ(recipes["MmBackward0"], kForetoldLayers);
    EXPECT_GE(recipes["AddBackward0"], kForetoldLayers - 1);
}

TEST_P(Foretold, step_and_peak_are_reached_as_foretold) {
    spillway::SessionOptions options;
    options.policy = "keep_all";
    std::int64_t const plain_ns = train(options).step_ns;
    options.policy = "recompute_all";  // its steps are recorded with recipes, nothing having left
    options.device_budget_bytes = 1 << 29;
    (void)train(options, trace_);
    auto const all = spillway::compare_files({trace_, machine_}, {"online"}, {1 << 29}, {});
    ASSERT_TRUE(all.ok()) << all.error().message();
    EXPECT_NEAR(static_cast<double>(all->compute_ns) / static_cast<double>(plain_ns), 1, 0.01);

    std::int64_t const budget = (all->floor_bytes + all->peak_bytes) / 2;
    auto const plan = spillway::plan_of_files(
        {trace_, machine_}, GetParam(), {.device_bytes = budget, .host_bytes = 1 << 30}
    );
    ASSERT_TRUE(plan.ok()) << plan.error().message();
    std::ofstream(plan_) << plan->json;
    auto const foretold = nlohmann::json::parse(plan->json);
    auto const foretold_ns = foretold["predicted_step_ns"].get<double>();
    EXPECT_GT(foretold_ns, 0);

    options.policy = "online";
    options.plan = plan_;
    options.device_budget_bytes = budget;
    options.host_budget_bytes = 1 << 30;
    Ran const ran = train(options);
    auto const reached_ns = static_cast<double>(ran.step_ns);
    bool const makes_most_again =
        GetParam() == "recompute_all" || GetParam() == "sqrt_checkpoint" || GetParam() == "rotor";
    EXPECT_LT(
        std::abs(foretold_ns / reached_ns - 1),
        makes_most_again ? kForetoldRecipesBar : kForetoldBar
    ) << plan->summary
      << "; reached " << reached_ns << ", with nothing moved " << plain_ns;
    auto const foretold_peak = foretold["predicted_peak_bytes"].get<double>();
    // A program runs ahead of its device, so stores that have not ended still take room. Where no
    // value has a time by which it is gone, only the budget holds that back.
    bool const leaves_at_once = GetParam() == "offload_all" || GetParam().starts_with("tba");
    double const most =
        leaves_at_once ? static_cast<double>(budget) : kForetoldPeakBar * foretold_peak;
    EXPECT_LE(static_cast<double>(ran.peak_bytes), most);
}

INSTANTIATE_TEST_SUITE_P(
    Policies,
    Foretold,
    testing::Values(
        "offload_all",
        "te:layers=6",
        "vdnn_all",
        "vdnn_dyn",
        "recompute_all",
        "sqrt_checkpoint",
        "rotor",
        "pofo",
        "tba_recompute",
        "tba",
        "largest_first",
        "optimal_offload",
        "capuchin",
        "str",
        "auto",
        "swapadvisor",
        "superneurons"
    ),
    [](auto const& instance) { return instance.param.substr(0, instance.param.find(':')); }
);

}  // namespace
}  // namespace late
