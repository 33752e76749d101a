// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A GPT of two blocks and AdamW, in operators only, for any device.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace late {

struct GptShape {
    std::int64_t vocabulary = 64;
    std::int64_t width = 32;
    std::int64_t heads = 4;
    std::int64_t tokens = 16;
    std::int64_t batch = 4;
    std::int64_t blocks = 2;
    double dropout = 0.1;
};

class Gpt {
  public:
    /// The weights are drawn on the CPU from `seed`, so that they are the same everywhere.
    Gpt(std::uint64_t seed, at::Device device);

    /// The loss of one batch; sees `step` only to draw its tokens.
    [[nodiscard]] at::Tensor loss(std::int64_t step);
    void adamw(std::int64_t step, double rate);

    [[nodiscard]] std::vector<at::Tensor> const& parameters() const { return parameters_; }

  private:
    at::Tensor const& add(std::vector<std::int64_t> const& sizes, double deviation, double mean);
    at::Tensor block(at::Tensor const& x, std::size_t first) const;
    at::Tensor attention(at::Tensor const& x) const;
    at::Tensor dropout(at::Tensor const& x) const;

    GptShape shape_;
    at::Device device_;
    at::Generator generator_;
    std::vector<at::Tensor> parameters_;
    std::vector<at::Tensor> first_moments_;
    std::vector<at::Tensor> second_moments_;
};

/// What a few steps leave, on the CPU: losses, the last gradients, the parameters.
struct Trained {
    std::vector<at::Tensor> values;

    bool operator==(Trained const& other) const;
};

/// Trains from `seed`. `after_backward` sees the model once a step.
[[nodiscard]] Trained train_gpt(
    std::uint64_t seed,
    at::Device device,
    std::int64_t steps,
    std::function<void(Gpt const&)> const& after_backward = {}
);

}  // namespace late
