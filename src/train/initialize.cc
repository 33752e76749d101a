// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/initialize.h"

#include "train/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

namespace spillway::train {

Initializer::Initializer(std::int64_t seed)
    : generator_(at::detail::createCPUGenerator(mixed({seed, 0x1417}))) {}

void Initializer::normal(torch::nn::Linear const& linear, double deviation) {
    at::NoGradGuard const no_grad;
    linear->weight.normal_(0.0, deviation, generator_);
    if (linear->bias.defined()) {
        linear->bias.zero_();
    }
}

void Initializer::normal(torch::nn::Embedding const& embedding, double deviation) {
    at::NoGradGuard const no_grad;
    embedding->weight.normal_(0.0, deviation, generator_);
}

}  // namespace spillway::train
