// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Training under a cap, end to end inside one process: the same gradients to the last bit.

#include "base/units.h"
#include "spillway/session.h"
#include "spillway/session_error.h"
#include "test_paths.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace spillway {
namespace {

/// A folder on a real disk for blocks.
std::string scratch_folder() {
    std::filesystem::path const folder = std::filesystem::path(build_folder()) / "scratch";
    std::filesystem::create_directories(folder);
    return folder.string();
}

torch::nn::Sequential mlp(std::int64_t layers, std::int64_t width) {
    torch::manual_seed(7);
    torch::nn::Sequential model;
    for (std::int64_t i = 0; i < layers; ++i) {
        model->push_back(torch::nn::Linear(width, width));
        model->push_back(torch::nn::GELU());
    }
    return model;
}

std::vector<torch::Tensor> gradients(torch::nn::Sequential& model) {
    std::vector<torch::Tensor> out;
    for (torch::Tensor const& parameter : model->parameters()) {
        out.push_back(parameter.grad().clone());
        parameter.mutable_grad() = torch::Tensor();
    }
    return out;
}

struct Training {
    std::vector<torch::Tensor> gradients;
    std::vector<double> losses;
};

Training plain(std::int64_t layers, std::int64_t rows, std::int64_t width) {
    auto model = mlp(layers, width);
    torch::manual_seed(11);
    torch::Tensor const input = torch::randn({rows, width});
    Training outcome;
    for (int step = 0; step < 3; ++step) {
        torch::Tensor loss = model->forward(input).pow(2).mean();
        loss.backward();
        outcome.losses.push_back(loss.item<double>());
        outcome.gradients = gradients(model);
    }
    return outcome;
}

Training capped(
    std::int64_t layers,
    std::int64_t rows,
    std::int64_t width,
    SessionOptions const& options,
    Report& report
) {
    auto session = Session::open(options);
    auto model = mlp(layers, width);
    session->own(model->parameters());
    torch::manual_seed(11);
    torch::Tensor const input = torch::randn({rows, width});
    Training outcome;
    for (int step = 0; step < 3; ++step) {
        torch::Tensor loss;
        session->phase(Phase::forward, step);
        {
            Recording const recording(*session);
            loss = model->forward(input).pow(2).mean();
        }
        session->phase(Phase::backward, step);
        loss.backward();
        session->phase(Phase::update, step);
        outcome.losses.push_back(loss.item<double>());
        outcome.gradients = gradients(model);
    }
    report = session->report();
    return outcome;
}

TEST(FirstLight, capped_training_gives_the_plain_gradients_bit_for_bit) {
    constexpr std::int64_t kLayers = 16;
    constexpr std::int64_t kBatch = 2048;
    constexpr std::int64_t kUnits = 256;  // 2 MiB a saved activation, 64 MiB in all
    Training const expected = plain(kLayers, kBatch, kUnits);
    Report report;
    Training const actual = capped(
        kLayers,
        kBatch,
        kUnits,
        {.device_budget_bytes = 24_MiB,
         .nvme = scratch_folder(),
         .nvme_budget_bytes = 1_GiB,
         .recompute = "off"},
        report
    );
    EXPECT_EQ(expected.losses, actual.losses);
    ASSERT_EQ(expected.gradients.size(), actual.gradients.size());
    for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
        EXPECT_TRUE(torch::equal(expected.gradients[i], actual.gradients[i])) << i;
    }
    EXPECT_LE(report.device_peak_bytes, 24_MiB);
    EXPECT_GT(report.stored_bytes, 3 * 32_MiB);
}

TEST(FirstLight, parameters_from_before_the_session_count_in_its_budget) {
    auto model = mlp(4, 256);  // 4 x (256 x 256 + 256) floats
    constexpr std::int64_t kParameterBytes = 4 * (256 * 256 + 256) * 4;
    {
        auto session = Session::open({.device_budget_bytes = 2_MiB});
        session->own(model->parameters());
        EXPECT_EQ(session->report().device_bytes, kParameterBytes);
        EXPECT_EQ(session->report().device_limit_bytes, 2_MiB);
        EXPECT_THROW(torch::empty({1_MiB / 4}), c10::OutOfMemoryError);
        session->own(model->parameters());
        EXPECT_EQ(session->report().device_bytes, kParameterBytes) << "once";
    }
    auto small = Session::open({.device_budget_bytes = 1_MiB});
    try {
        small->own(model->parameters());
        FAIL() << "nothing is left";
    } catch (BadOption const& bad) {
        EXPECT_EQ(bad.fault().option, "device_budget_bytes");
    }
}

TEST(FirstLight, options_that_cannot_be_are_named) {
    auto const refused = [](SessionOptions const& options) -> std::string {
        try {
            (void)Session::open(options);
        } catch (BadOption const& bad) {
            return bad.fault().option;
        }
        return "nothing";
    };
    EXPECT_EQ(refused({.device_budget_bytes = 12}), "device_budget_bytes");
    EXPECT_EQ(refused({.device_budget_bytes = 1_MiB, .nvme = "/no/such/folder"}), "nvme");
    EXPECT_EQ(
        refused({.device_budget_bytes = 1_MiB, .nvme = scratch_folder(), .nvme_budget_bytes = 12}),
        "nvme_budget_bytes"
    );
    EXPECT_EQ(
        refused(
            {.device_budget_bytes = 1_MiB,
             .nvme = scratch_folder(),
             .nvme_budget_bytes = 900 * 1024_GiB}
        ),
        "nvme_budget_bytes"
    );
    EXPECT_EQ(refused({.device_budget_bytes = 1_MiB, .policy = "none"}), "policy");
    EXPECT_EQ(refused({.device_budget_bytes = 1_MiB, .policy = "planned"}), "policy");
    EXPECT_EQ(refused({.device_budget_bytes = -1}), "device_budget_bytes");
    EXPECT_EQ(
        refused({.device_budget_bytes = 1_MiB, .host_budget_bytes = -1}), "host_budget_bytes"
    );
    EXPECT_EQ(
        refused({.device_budget_bytes = 1_MiB, .record_events = "/no/such/folder/log"}),
        "record_events"
    );
    EXPECT_EQ(
        refused({.device_budget_bytes = 1_MiB, .timeline_file = "/no/such/folder/trace"}),
        "timeline_file"
    );
}

TEST(FirstLight, keep_all_under_the_cap_says_who_asked_for_what) {
    Report report;
    try {
        capped(16, 2048, 256, {.device_budget_bytes = 24_MiB, .policy = "keep_all"}, report);
        FAIL() << "the cap did not hold";
    } catch (c10::OutOfMemoryError const& error) {
        std::string const words = error.what_without_backtrace();
        EXPECT_NE(words.find("step 0, forward"), std::string::npos) << words;
        EXPECT_NE(words.find("aten::"), std::string::npos) << words;
        EXPECT_NE(words.find("the policy moves nothing"), std::string::npos) << words;
        auto const* const of_budget = dynamic_cast<OutOfBudget const*>(&error);
        ASSERT_NE(of_budget, nullptr) << "the same in numbers goes with it";
        EXPECT_EQ(of_budget->refusal().why, NoRoom::moves_nothing);
        EXPECT_EQ(of_budget->refusal().limit_bytes, 24_MiB);
        EXPECT_EQ(of_budget->refusal().phase, Phase::forward);
    }
}

}  // namespace
}  // namespace spillway
