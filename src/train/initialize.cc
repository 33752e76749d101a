// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/initialize.h"

#include "train/random.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

namespace spillway::train {

Initializer::Initializer(std::int64_t seed)
    : generator_(at::detail::createCPUGenerator(mixed({seed, 0x1417}))) {}

void Initializer::draw(at::Tensor const& weight, double deviation) {
    at::NoGradGuard const no_grad;
    if (weight.is_cpu()) {
        weight.normal_(0.0, deviation, generator_);
        return;
    }
    weight.copy_(at::empty(weight.sizes(), at::kFloat).normal_(0.0, deviation, generator_));
}

void Initializer::normal(Linear const& linear, double deviation) {
    draw(linear.weight, deviation);
    if (linear.bias.defined()) {
        at::NoGradGuard const no_grad;
        linear.bias.zero_();
    }
}

void Initializer::normal(Embedding const& embedding, double deviation) {
    draw(embedding.weight, deviation);
}

}  // namespace spillway::train
