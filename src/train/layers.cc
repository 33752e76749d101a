// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/layers.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

namespace spillway::train {

Linear::Linear(std::int64_t in, std::int64_t out, bool biased, c10::Device device)
    : weight(register_parameter("weight", at::empty({out, in}, device))) {
    if (biased) {
        bias = register_parameter("bias", at::empty({out}, device));
    }
}

at::Tensor Linear::forward(at::Tensor const& x) const {
    return at::linear(x, weight, bias);
}

Embedding::Embedding(std::int64_t rows, std::int64_t width, c10::Device device)
    : weight(register_parameter("weight", at::empty({rows, width}, device))) {}

at::Tensor Embedding::forward(at::Tensor const& ids) const {
    return at::embedding(weight, ids);
}

LayerNorm::LayerNorm(std::int64_t width, c10::Device device)
    : weight(register_parameter("weight", at::ones({width}, device))),
      bias(register_parameter("bias", at::zeros({width}, device))) {}

at::Tensor LayerNorm::forward(at::Tensor const& x) const {
    return at::layer_norm(x, weight.sizes(), weight, bias);
}

}  // namespace spillway::train
