// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Tensors that a session makes again, never by faith: what an operator list does not know of is
// found out before, or stops the step.
#include "spillway/session.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace spillway::made_again {
namespace {

using at::Tensor;

constexpr std::int64_t kRows = 128;
constexpr std::int64_t kColumns = 2048;  // 1 MiB a saved tensor
constexpr int kLayers = 10;              // two of them each
constexpr std::int64_t kBudget = std::int64_t{12} << 20;

/// As a kernel does that is no operator: no version moves.
void write_silently(Tensor const& x) {
    auto* const bytes = static_cast<float*>(const_cast<void*>(x.const_data_ptr()));
    for (std::int64_t i = 0; i < x.numel(); i += 97) {
        bytes[i] *= 2;
    }
}

struct Trained {
    std::vector<Tensor> gradients;
    Report report;
};

/// One forward and backward; no session where `budget_bytes` is 0.
Trained train(
    std::int64_t budget_bytes,
    std::function<void(Tensor const&)> const& after_layer,
    std::function<void(Tensor const&)> const& between
) {
    std::unique_ptr<Session> session;
    if (budget_bytes > 0) {
        session = Session::open({.device_budget_bytes = budget_bytes});
    }
    at::manual_seed(1);
    Tensor const input = at::randn({kRows, kColumns});
    std::vector<Tensor> weights;
    for (int i = 0; i < kLayers; ++i) {
        weights.push_back(at::randn({kColumns}).requires_grad_());
    }
    if (session) {
        session->own(weights);
    }
    auto const forward = [&] {
        Tensor x = input;
        for (Tensor const& weight : weights) {
            x = at::sin(x * weight);
            after_layer(x);
        }
        return x.sum();
    };
    Tensor loss;
    if (session) {
        session->phase(Phase::forward, 0);
        Recording const recording(*session);
        loss = forward();
    } else {
        loss = forward();
    }
    for (Tensor const& weight : weights) {
        between(weight);
    }
    if (session) {
        session->phase(Phase::backward, 0);
    }
    loss.backward();
    Trained trained;
    for (Tensor const& weight : weights) {
        trained.gradients.push_back(weight.grad());
    }
    if (session) {
        trained.report = session->report();
    }
    return trained;
}

void expect_same_gradients(Trained const& expected, Trained const& actual) {
    ASSERT_EQ(expected.gradients.size(), actual.gradients.size());
    for (std::size_t i = 0; i < expected.gradients.size(); ++i) {
        EXPECT_TRUE(at::equal(expected.gradients[i], actual.gradients[i])) << i;
    }
}

void nothing(Tensor const&) {}

TEST(MadeAgain, by_a_session_that_has_only_a_budget) {
    Trained const expected = train(0, nothing, nothing);
    Trained const actual = train(kBudget, nothing, nothing);
    expect_same_gradients(expected, actual);
    EXPECT_GT(actual.report.recomputed_values, 0);
    EXPECT_EQ(actual.report.refused_recipes, 0);
    EXPECT_LE(actual.report.device_peak_bytes, kBudget);
}

TEST(MadeAgain, operators_that_give_other_bits_are_refused_before_they_are_relied_on) {
    Trained const expected = train(0, write_silently, nothing);
    Trained const actual = train(kBudget + (kLayers << 20), write_silently, nothing);
    expect_same_gradients(expected, actual);
    EXPECT_GT(actual.report.refused_recipes, 0);
}

TEST(MadeAgain, a_source_that_was_written_unseen_stops_the_step) {
    try {
        (void)train(kBudget, nothing, write_silently);
        FAIL() << "what is made again is not what it was";
    } catch (c10::Error const& error) {
        std::string const what = error.what();
        EXPECT_NE(what.find("is not what it was after"), std::string::npos) << what;
    }
}

}  // namespace
}  // namespace spillway::made_again
