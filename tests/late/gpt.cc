// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "late/gpt.h"

#include "late/late.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cmath>
#include <tuple>

namespace late {

namespace {

constexpr std::size_t kPerBlock = 12;  // tensors of a block
constexpr std::size_t kBeforeBlocks = 2;

}  // namespace

Gpt::Gpt(std::uint64_t seed, at::Device device)
    : device_(device), generator_(at::detail::createCPUGenerator(seed)) {
    std::int64_t const width = shape_.width;
    add({shape_.vocabulary, width}, 0.02, 0);
    add({shape_.tokens, width}, 0.02, 0);
    for (std::int64_t i = 0; i < shape_.blocks; ++i) {
        for (std::int64_t const out : {3 * width, width}) {  // attention
            if (out == 3 * width) {
                add({width}, 0.01, 1);
                add({width}, 0.01, 0);
            }
            add({out, width}, 0.1, 0);
            add({out}, 0.01, 0);
        }
        add({width}, 0.01, 1);
        add({width}, 0.01, 0);
        add({4 * width, width}, 0.1, 0);
        add({4 * width}, 0.01, 0);
        add({width, 4 * width}, 0.1, 0);
        add({width}, 0.01, 0);
    }
    add({width}, 0.01, 1);
    add({width}, 0.01, 0);
}

at::Tensor const& Gpt::add(std::vector<std::int64_t> const& sizes, double deviation, double mean) {
    at::Tensor const drawn = at::randn(sizes, generator_).mul_(deviation).add_(mean);
    parameters_.push_back(drawn.to(device_).requires_grad_());
    first_moments_.push_back(at::zeros_like(parameters_.back()).detach());
    second_moments_.push_back(at::zeros_like(parameters_.back()).detach());
    return parameters_.back();
}

at::Tensor Gpt::dropout(at::Tensor const& x) const {
    return std::get<0>(at::native_dropout(x, shape_.dropout, true));
}

at::Tensor Gpt::attention(at::Tensor const& x) const {
    auto const split = [&](at::Tensor const& part) {
        return part.view({shape_.batch, shape_.tokens, shape_.heads, shape_.width / shape_.heads})
            .transpose(1, 2);
    };
    std::vector<at::Tensor> const parts = x.split(shape_.width, 2);
    at::Tensor const mixed = std::get<0>(at::_scaled_dot_product_attention_math(
        split(parts[0]), split(parts[1]), split(parts[2]), {}, 0.0, true
    ));
    return mixed.transpose(1, 2).reshape({shape_.batch, shape_.tokens, shape_.width});
}

at::Tensor Gpt::block(at::Tensor const& x, std::size_t first) const {
    at::Tensor const* const p = &parameters_[first];
    at::Tensor const h = at::layer_norm(x, {shape_.width}, p[0], p[1]);
    at::Tensor const mixed = attention(at::linear(h, p[2], p[3]));
    at::Tensor const y = x + dropout(at::linear(mixed, p[4], p[5]));
    at::Tensor const wide =
        at::gelu(at::linear(at::layer_norm(y, {shape_.width}, p[6], p[7]), p[8], p[9]));
    return y + dropout(at::linear(wide, p[10], p[11]));
}

at::Tensor Gpt::loss(std::int64_t step) {
    at::Generator draw = at::detail::createCPUGenerator(static_cast<std::uint64_t>(1000 + step));
    at::Tensor const all =
        at::randint(shape_.vocabulary, {shape_.batch, shape_.tokens + 1}, draw, at::kLong)
            .to(device_);
    at::Tensor x = at::embedding(parameters_[0], all.narrow(1, 0, shape_.tokens)) + parameters_[1];
    x = dropout(x);
    for (std::int64_t i = 0; i < shape_.blocks; ++i) {
        x = block(x, kBeforeBlocks + kPerBlock * static_cast<std::size_t>(i));
    }
    std::size_t const last = parameters_.size() - 2;
    x = at::layer_norm(x, {shape_.width}, parameters_[last], parameters_[last + 1]);
    at::Tensor const scores = at::linear(x, parameters_[0]).view({-1, shape_.vocabulary});
    return at::cross_entropy_loss(scores, all.narrow(1, 1, shape_.tokens).reshape({-1}));
}

void Gpt::adamw(std::int64_t step, double rate) {
    at::NoGradGuard const no_grad;
    auto const t = static_cast<double>(step + 1);
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        at::Tensor const& gradient = parameters_[i].grad();
        first_moments_[i].mul_(0.9).add_(gradient, 0.1);
        second_moments_[i].mul_(0.99).addcmul_(gradient, gradient, 0.01);
        at::Tensor const bound =
            second_moments_[i].sqrt().div_(std::sqrt(1 - std::pow(0.99, t))).add_(1e-8);
        parameters_[i].mul_(1 - rate * 0.01);
        parameters_[i].addcdiv_(first_moments_[i], bound, -rate / (1 - std::pow(0.9, t)));
    }
}

bool Trained::operator==(Trained const& other) const {
    return std::equal(
        values.begin(),
        values.end(),
        other.values.begin(),
        other.values.end(),
        [](at::Tensor const& a, at::Tensor const& b) { return at::equal(a, b); }
    );
}

Trained train_gpt(
    std::uint64_t seed,
    at::Device device,
    std::int64_t steps,
    std::function<void(Gpt const&)> const& after_backward
) {
    at::manual_seed(seed);
    manual_seed(seed);
    Gpt model(seed, device);
    Trained trained;
    for (std::int64_t step = 0; step < steps; ++step) {
        for (at::Tensor const& parameter : model.parameters()) {
            parameter.mutable_grad() = at::Tensor();
        }
        at::Tensor const loss = model.loss(step);
        loss.backward();
        if (after_backward) {
            after_backward(model);
        }
        model.adamw(step, 1e-2);
        trained.values.push_back(loss.detach().cpu());
    }
    for (at::Tensor const& parameter : model.parameters()) {
        trained.values.push_back(parameter.grad().cpu());
        trained.values.push_back(parameter.detach().cpu());
    }
    return trained;
}

}  // namespace late
