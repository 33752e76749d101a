// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The models of `spillway train` in a session whose budget is so tight that most of what they save
// moves: losses, gradients and weights are the CPU's to the last bit.

#include "late/late_session.h"
#include "train/budget.h"
#include "train/test_support.h"
#include "train/trainer.h"

#include <ATen/Context.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kSteps = 2;

/// Plain, or in a session; keeps the gradients that the last update was given.
class Watched final : public train::Budget {
  public:
    explicit Watched(std::shared_ptr<TorchSession> session) : session_(std::move(session)) {
        if (session_ != nullptr) {
            allocate_from(session_, false);
        }
    }

    void own(
        Tensors const& tensors,
        std::vector<std::string> const& names,
        std::vector<OwnedKind> const& kinds
    ) override {
        if (session_ != nullptr) {
            session_->own(tensors, names, kinds);
        }
    }
    void phase(Phase phase, std::int64_t step) override {
        if (phase == Phase::update) {
            gradients.clear();
            for (Tensor const& parameter : parameters) {
                gradients.push_back(parameter.grad().cpu().clone());
            }
        }
        if (session_ == nullptr) {
            return;
        }
        if (phase == Phase::forward) {
            session_->saved_tensors().begin_pass();
            session_->loop().begin_step(step);
        }
        session_->loop().phase(phase);
    }
    std::unique_ptr<Scope> record() override {
        return session_ == nullptr ? nullptr : std::make_unique<Recorded>(session_);
    }

    Tensors parameters;
    Tensors gradients;

  private:
    class Recorded final : public Scope {
      public:
        explicit Recorded(std::shared_ptr<TorchSession> const& session) : entered_(session) {}

      private:
        Entered const entered_;
    };

    std::shared_ptr<TorchSession> session_;
};

struct Model {
    std::string style;
    std::int64_t layers = 0;
    std::int64_t batch = 0;
    std::int64_t budget_bytes = 0;  ///< near the least with which its update can run
};

/// Losses, gradients of the last step and weights, on the CPU.
Tensors trained(
    Model const& model, at::Device device, std::shared_ptr<TorchSession> const& session
) {
    TrainOptions options = train::tiny_options();
    options.style = model.style;
    options.layers = model.layers;
    options.batch = model.batch;
    options.sequence = 16;
    train::ModelShape const shape = train::shape_of(options);
    train::Corpus const corpus = train::small_corpus();
    Watched budget(session);
    train::Trainer trainer(options, shape, corpus, budget, device);
    budget.parameters = trainer.model().parameters();
    std::vector<float> losses;
    for (std::int64_t step = 0; step < kSteps; ++step) {
        losses.push_back(trainer.step(step));
    }
    Tensors all = budget.gradients;
    all.push_back(at::tensor(losses));
    for (Tensor const& parameter : budget.parameters) {
        all.push_back(parameter.detach().cpu());
    }
    return all;
}

Tensors const& trained_on_the_cpu(Model const& model) {
    static std::map<std::string, Tensors> known;
    if (known.count(model.style) == 0) {
        known[model.style] = trained(model, at::kCPU, nullptr);
    }
    return known[model.style];
}

/// The model, and whether values go through staging, which the mover's own thread looks after.
class Models : public testing::TestWithParam<std::tuple<Model, bool>> {
  protected:
    // Attention in its plain form on both: torch has no other one for a backend of one's own.
    Models() {
        at::globalContext().setSDPUseFlash(false);
        at::globalContext().setSDPUseMemEfficient(false);
    }
    ~Models() override {
        at::globalContext().setSDPUseFlash(true);
        at::globalContext().setSDPUseMemEfficient(true);
    }
};

TEST_P(Models, train_in_a_tight_budget_as_on_the_cpu) {
    auto const& [model, staged] = GetParam();
    SessionOptions options = small_options(model.budget_bytes);
    options.min_value_bytes = 1;
    auto const session =
        staged ? open_staged(options, std::make_unique<MemoryTier>(4_MiB), true, 256_KiB)
               : open_on_host(options, 4_MiB);
    Tensors const expected = trained_on_the_cpu(model);
    Tensors const actual = trained(model, suite().device, session);
    ASSERT_EQ(expected.size(), actual.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_TRUE(at::equal(expected[i], actual[i])) << i;
    }
    Report const report = session->report();
    EXPECT_GT(report.loaded_bytes + report.recomputed_bytes, report.saved_bytes / 2)
        << "most of it stayed";
    EXPECT_LE(report.device_peak_bytes, options.device_budget_bytes);
}

INSTANTIATE_TEST_SUITE_P(
    late,
    Models,
    testing::Combine(
        testing::Values(Model{"gpt2", 4, 4, 450'000}, Model{"llama2", 2, 8, 1'200'000}),
        testing::Bool()
    ),
    [](auto const& of) {
        bool const staged = std::get<1>(of.param);
        return std::get<0>(of.param).style + (staged ? "_staged" : "_on_host");
    }
);

}  // namespace
}  // namespace spillway
