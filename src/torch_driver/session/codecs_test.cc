// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Training whose saved tensors leave encoded: what is exact gives the plain bits, what is lossy the
// plain losses nearly, and nothing is lossy that was not asked for.

#include "base/units.h"
#include "spillway/session.h"
#include "test_paths.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

namespace spillway {
namespace {

std::string scratch() {
    std::filesystem::path const folder = std::filesystem::path(build_folder()) / "scratch";
    std::filesystem::create_directories(folder);
    return folder.string();
}

constexpr std::int64_t kWidth = 128;
constexpr std::int64_t kRows = 1024;  ///< 512 KiB a saved activation
constexpr int kSteps = 3;

/// Norm, linear, GELU, linear, dropout around a residual stream; every other block has a ReLU.
struct BlockImpl : torch::nn::Module {
    explicit BlockImpl(bool rectifies)
        : norm(register_module("norm", torch::nn::LayerNorm(std::vector<std::int64_t>{kWidth}))),
          wide(register_module("wide", torch::nn::Linear(kWidth, 2 * kWidth))),
          narrow(register_module("narrow", torch::nn::Linear(2 * kWidth, kWidth))),
          rectifies_(rectifies) {}
    torch::Tensor forward(torch::Tensor const& x) {
        torch::Tensor const inner = wide->forward(norm->forward(x));
        torch::Tensor const bent = rectifies_ ? torch::relu(inner) : torch::gelu(inner);
        return x + torch::dropout(narrow->forward(bent), 0.1, true);
    }

    torch::nn::LayerNorm norm;
    torch::nn::Linear wide;
    torch::nn::Linear narrow;

  private:
    bool const rectifies_;
};
TORCH_MODULE(Block);

struct Outcome {
    std::vector<double> losses;
    std::vector<torch::Tensor> gradients;  ///< of the last step
    Report report;
};

/// Without options, plainly. `seed` is torch's when the session opens, for rounding alone.
Outcome train(SessionOptions const* options, std::uint64_t seed = 1) {
    torch::manual_seed(seed);
    auto const session = options == nullptr ? nullptr : Session::open(*options);
    torch::manual_seed(7);
    torch::nn::Sequential model;
    for (int i = 0; i < 6; ++i) {
        model->push_back(Block(i % 2 == 1));
    }
    if (session) {
        session->own(model->parameters());
    }
    torch::manual_seed(11);
    torch::Tensor const input = torch::randn({kRows, kWidth});
    torch::Tensor const target = torch::randn({kRows, kWidth});
    Outcome outcome;
    for (int step = 0; step < kSteps; ++step) {
        torch::Tensor loss;
        if (session) {
            session->phase(Phase::forward, step);
            Recording const recording(*session);
            loss = (model->forward(input) - target).pow(2).mean();
        } else {
            loss = (model->forward(input) - target).pow(2).mean();
        }
        if (session) {
            session->phase(Phase::backward, step);
        }
        loss.backward();
        if (session) {
            session->phase(Phase::update, step);
        }
        outcome.losses.push_back(loss.item<double>());
        outcome.gradients.clear();
        torch::NoGradGuard const no_grad;
        for (torch::Tensor& parameter : model->parameters()) {
            outcome.gradients.push_back(parameter.grad().clone());
            parameter -= 0.5 * parameter.grad();
            parameter.mutable_grad() = torch::Tensor();
        }
        if (session) {
            session->own(model->parameters());
        }
    }
    if (session) {
        outcome.report = session->report();
    }
    return outcome;
}

Outcome const& plain_run() {
    static Outcome const plain = train(nullptr);
    return plain;
}

SessionOptions capped(std::string policy, bool lossy, std::string codecs) {
    SessionOptions options;
    options.device_budget_bytes = 16_MiB;
    options.nvme = scratch();
    options.nvme_budget_bytes = 1_GiB;
    options.policy = std::move(policy);
    options.recompute = "off";
    options.lossy = lossy;
    options.codecs = std::move(codecs);
    return options;
}

CodecReport const* row_of(Report const& report, std::string const& tensor_class) {
    for (CodecReport const& row : report.codecs) {
        if (row.tensor_class == tensor_class) {
            return &row;
        }
    }
    return nullptr;
}

double distance(Outcome const& one, Outcome const& other) {
    double of_difference = 0;
    double of_values = 0;
    for (std::size_t i = 0; i < one.gradients.size(); ++i) {
        of_difference += (one.gradients[i] - other.gradients[i]).pow(2).sum().item<double>();
        of_values += other.gradients[i].pow(2).sum().item<double>();
    }
    return std::sqrt(of_difference / of_values);
}

TEST(Codecs, qpo_trains_nearly_as_plain_and_tells_what_each_class_lost) {
    Outcome const& plain = plain_run();
    SessionOptions const options = capped("qpo", true, "");
    Outcome const lossy = train(&options);
    for (int step = 0; step < kSteps; ++step) {
        double const expected = plain.losses[static_cast<std::size_t>(step)];
        EXPECT_NEAR(lossy.losses[static_cast<std::size_t>(step)], expected, 0.02 * expected);
    }
    double const error = distance(lossy, plain);
    EXPECT_LT(error, 0.2);
    EXPECT_GT(error, 1e-6) << "it is lossy";
    Report const& report = lossy.report;
    EXPECT_LE(report.device_peak_bytes, 16_MiB);
    EXPECT_GE(report.staging_bytes, 2_MiB);
    for (char const* const tensor_class : {"linear_input", "norm_input", "activation_input"}) {
        CodecReport const* const row = row_of(report, tensor_class);
        ASSERT_NE(row, nullptr) << tensor_class;
        EXPECT_GT(row->values, 0) << tensor_class;
        EXPECT_GT(row->relative_l2_error(), 0) << tensor_class;
        EXPECT_LT(row->bits, 9) << tensor_class;
        EXPECT_EQ(row->went_raw, 0) << tensor_class;
    }
    CodecReport const* const masks = row_of(report, "mask");
    ASSERT_NE(masks, nullptr);
    EXPECT_LT(masks->bits, 1.5);
    EXPECT_EQ(masks->went_raw, 0);
    EXPECT_EQ(row_of(report, "relu_output"), nullptr) << "a linear layer saves it, too";
    EXPECT_EQ(row_of(report, "other"), nullptr);
}

TEST(Codecs, exact_codecs_give_the_plain_bits) {
    Outcome const& plain = plain_run();
    for (auto const& [policy, codecs] :
         {std::pair{"online", "all=lossless"},
          std::pair{"qpo", "all=identity"},
          std::pair{"qpo", "all=lossless,mask=mask"},
          std::pair{"online", "mask=mask"}}) {
        SessionOptions const options = capped(policy, false, codecs);
        Outcome const exact = train(&options);
        EXPECT_EQ(exact.losses, plain.losses) << codecs;
        for (std::size_t i = 0; i < plain.gradients.size(); ++i) {
            EXPECT_TRUE(torch::equal(exact.gradients[i], plain.gradients[i])) << codecs << ' ' << i;
        }
        EXPECT_GT(exact.report.stored_bytes, 0);
        EXPECT_EQ(exact.report.codecs.empty(), std::string(codecs) == "all=identity") << codecs;
    }
}

TEST(Codecs, equal_runs_lose_the_same_bits) {
    SessionOptions options = capped("online", true, "affine4:stochastic");
    EXPECT_NE(train(&options).losses, train(&options).losses) << "two sessions, the same errors";
    options.rounding_seed = 5;
    Outcome const one = train(&options);
    Outcome const other = train(&options);
    EXPECT_EQ(one.losses, other.losses);
    for (std::size_t i = 0; i < one.gradients.size(); ++i) {
        EXPECT_TRUE(torch::equal(one.gradients[i], other.gradients[i])) << i;
    }
    EXPECT_NE(row_of(one.report, "linear_input"), nullptr);
    options.rounding_seed = 6;
    EXPECT_NE(one.losses, train(&options).losses) << "another seed rounds otherwise";
}

TEST(Codecs, a_codec_alone_goes_over_online) {
    SessionOptions const options = capped("online", true, "affine8");
    Outcome const lossy = train(&options);
    ASSERT_NE(row_of(lossy.report, "linear_input"), nullptr);
    EXPECT_EQ(row_of(lossy.report, "linear_input")->codec, "affine8");
    EXPECT_EQ(row_of(lossy.report, "mask"), nullptr) << "online encodes nothing by itself";
}

/// The gradient of a gradient is exact: what a backward saves again goes as it is.
TEST(Codecs, what_a_backward_saves_again_is_not_lossy) {
    auto const twice = [](Session* session) {
        torch::manual_seed(3);
        torch::Tensor const weight = torch::randn({kWidth, kWidth}).requires_grad_();
        torch::Tensor const x = torch::randn({kRows, kWidth}).requires_grad_();
        if (session != nullptr) {
            session->own({weight});
        }
        torch::Tensor loss;
        {
            auto const recording =
                session == nullptr ? nullptr : std::make_unique<Recording>(*session);
            torch::Tensor h = x * 1.5;
            for (int i = 0; i < 6; ++i) {
                h = torch::gelu(torch::linear(h, weight) / 16);
            }
            torch::Tensor const gradient =
                torch::autograd::grad({h.sum()}, {x}, {}, true, true).front();
            loss = gradient.pow(2).sum();
        }
        loss.backward();
        return weight.grad().clone();
    };
    torch::Tensor const plain = twice(nullptr);
    SessionOptions options = capped("online", true, "affine2");
    options.device_budget_bytes = 256_MiB;  // nothing has to leave before it is saved again
    auto const session = Session::open(options);
    EXPECT_TRUE(torch::allclose(twice(session.get()), plain, 1e-5, 1e-5));
}

std::string refused(SessionOptions const& options, std::string const& part) {
    try {
        (void)Session::open(options);
    } catch (BadOption const& bad) {
        std::string const words = bad.what();
        EXPECT_NE(words.find(part), std::string::npos) << words;
        EXPECT_EQ(words.find('\n'), std::string::npos) << words;
        return bad.fault().option;
    }
    return "nothing";
}

TEST(Codecs, what_cannot_be_is_refused_in_one_line) {
    EXPECT_EQ(refused(capped("qpo", false, ""), "lossy"), "policy");
    EXPECT_EQ(refused(capped("qpo", false, "norm_input=identity"), "lossy"), "codecs");
    EXPECT_EQ(refused(capped("online", false, "affine4"), "lossy"), "codecs");
    EXPECT_EQ(refused(capped("online", true, ""), "encodes nothing"), "lossy");
    EXPECT_EQ(refused(capped("keep_all", true, ""), "moves nothing"), "lossy");
    EXPECT_EQ(refused(capped("keep_all", false, "all=lossless"), "moves nothing"), "codecs");
    EXPECT_EQ(refused(capped("qpo", true, "affine7"), "affine7"), "codecs");
    EXPECT_EQ(refused(capped("qpo", true, "affine4:group=3"), "group"), "codecs");
    EXPECT_EQ(refused(capped("qpo", true, "weights=affine4"), "weights"), "codecs");
    EXPECT_EQ(refused(capped("quantized", true, ""), "qpo"), "policy");
    SessionOptions odd = capped("qpo", true, "");
    odd.nonfinite = "drop";
    EXPECT_EQ(refused(odd, "refuse"), "nonfinite");
    odd = capped("sqrt_checkpoint", false, "mask=mask");
    odd.recompute = "auto";
    EXPECT_EQ(refused(odd, ""), "nothing") << "below the budget other values move";
    odd = capped("online", false, "");
    odd.nvme_rate_bytes_per_s = -1;
    EXPECT_EQ(refused(odd, "negative"), "nvme_rate_bytes_per_s");
}

TEST(Codecs, lossy_is_refused_where_equal_bits_are_asked_for) {
    at::globalContext().setDeterministicAlgorithms(true, false);
    EXPECT_EQ(refused(capped("qpo", true, ""), "deterministic"), "lossy");
    EXPECT_EQ(refused(capped("online", false, "all=lossless"), ""), "nothing");
    at::globalContext().setDeterministicAlgorithms(false, false);
}

}  // namespace
}  // namespace spillway
