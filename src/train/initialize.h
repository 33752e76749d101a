// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// First weights, drawn from a generator of the model's own so that nothing else shifts them.
#pragma once

#include <ATen/core/Generator.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>

namespace spillway::train {

/// Draws weights in the order in which it is called.
class Initializer {
  public:
    explicit Initializer(std::int64_t seed);

    /// Weight from N(0, deviation), bias (if there is one) zero.
    void normal(torch::nn::Linear const& linear, double deviation);
    void normal(torch::nn::Embedding const& embedding, double deviation);

  private:
    at::Generator generator_;
};

}  // namespace spillway::train
