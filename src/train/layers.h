// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The layers with parameters, made where they are to be. torch::nn's own are made on the CPU, and
// filled there with numbers that the models here draw anew; moving them would hold both copies.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>

namespace spillway::train {

/// y = x W^T + b; its numbers are whatever the memory holds until an Initializer has drawn them.
///
/// Shapes  x [..., in] -> [..., out]; weight [out, in], bias [out]
class Linear : public torch::nn::Module {
  public:
    Linear(std::int64_t in, std::int64_t out, bool biased, c10::Device device);
    [[nodiscard]] at::Tensor forward(at::Tensor const& x) const;

    at::Tensor weight;
    at::Tensor bias;  ///< undefined without one
};

/// Rows of a table; its numbers are to be drawn, too.
///
/// Shapes  ids [...] i64 -> [..., width]; weight [rows, width]
class Embedding : public torch::nn::Module {
  public:
    Embedding(std::int64_t rows, std::int64_t width, c10::Device device);
    [[nodiscard]] at::Tensor forward(at::Tensor const& ids) const;

    at::Tensor weight;
};

/// Source  Ba et al., Layer Normalization, 2016
class LayerNorm : public torch::nn::Module {
  public:
    LayerNorm(std::int64_t width, c10::Device device);
    [[nodiscard]] at::Tensor forward(at::Tensor const& x) const;

    at::Tensor weight;  ///< ones at first
    at::Tensor bias;    ///< zeros at first
};

}  // namespace spillway::train
