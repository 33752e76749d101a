// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// First weights, drawn from a generator of the model's own so that nothing else shifts them, on the
// CPU so that they are the same on every device.
#pragma once

#include "train/layers.h"

#include <ATen/core/Generator.h>

#include <cstdint>

namespace spillway::train {

/// Draws weights in the order in which it is called.
class Initializer {
  public:
    explicit Initializer(std::int64_t seed);

    /// Weight from N(0, deviation), bias (if there is one) zero.
    void normal(Linear const& linear, double deviation);
    void normal(Embedding const& embedding, double deviation);

  private:
    void draw(at::Tensor const& weight, double deviation);

    at::Generator generator_;
};

}  // namespace spillway::train
