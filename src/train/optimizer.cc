// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/optimizer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace spillway::train {

namespace optim = torch::optim;

std::unique_ptr<optim::AdamW> make_optimizer(
    LanguageModel const& model, TrainOptions const& options
) {
    std::vector<at::Tensor> matrices;
    std::vector<at::Tensor> vectors;
    for (at::Tensor const& parameter : model.parameters()) {
        (parameter.dim() >= 2 ? matrices : vectors).push_back(parameter);
    }
    optim::AdamWOptions const decayed = optim::AdamWOptions(options.learning_rate)
                                            .betas(std::make_tuple(options.beta1, options.beta2))
                                            .weight_decay(options.weight_decay);
    optim::AdamWOptions const undecayed = optim::AdamWOptions(decayed).weight_decay(0.0);
    std::vector<optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::move(matrices), std::make_unique<optim::AdamWOptions>(decayed));
    groups.emplace_back(std::move(vectors), std::make_unique<optim::AdamWOptions>(undecayed));
    return std::make_unique<optim::AdamW>(groups, decayed);
}

void set_rate(optim::AdamW& optimizer, double rate) {
    for (optim::OptimizerParamGroup& group : optimizer.param_groups()) {
        group.options().set_lr(rate);
    }
}

void clip_gradients(LanguageModel const& model, double most) {
    at::NoGradGuard const no_grad;
    std::vector<at::Tensor> norms;
    for (at::Tensor const& parameter : model.parameters()) {
        if (parameter.grad().defined()) {
            norms.push_back(parameter.grad().norm());
        }
    }
    double const norm = at::stack(norms).norm().item<double>();
    double const scale = most / (norm + 1e-6);
    if (!(scale < 1.0)) {
        return;
    }
    for (at::Tensor const& parameter : model.parameters()) {
        if (parameter.grad().defined()) {
            parameter.grad().mul_(scale);
        }
    }
}

namespace {

/// None before the first update.
std::vector<at::Tensor> moments_of_one(optim::AdamW& optimizer, at::Tensor const& parameter) {
    auto const found = optimizer.state().find(parameter.unsafeGetTensorImpl());
    if (found == optimizer.state().end()) {
        return {};
    }
    auto const& state = static_cast<optim::AdamWParamState const&>(*found->second);
    return {state.exp_avg(), state.exp_avg_sq()};
}

}  // namespace

void step_by_parameters(optim::AdamW& optimizer, Budget& budget, bool from_last) {
    std::vector<std::pair<at::Tensor, at::Tensor>> gradients;
    for (optim::OptimizerParamGroup& group : optimizer.param_groups()) {
        for (at::Tensor& parameter : group.params()) {
            if (parameter.grad().defined()) {
                at::Tensor gradient = std::exchange(parameter.mutable_grad(), at::Tensor());
                gradients.emplace_back(parameter, std::move(gradient));
            }
        }
    }
    if (from_last) {
        std::reverse(gradients.begin(), gradients.end());
    }
    for (auto& [parameter, gradient] : gradients) {
        budget.bring_back(moments_of_one(optimizer, parameter));
        parameter.mutable_grad() = std::exchange(gradient, at::Tensor());
        optimizer.step();
        parameter.mutable_grad().reset();
        budget.let_leave(moments_of_one(optimizer, parameter));
    }
}

std::vector<Moments> moments_of(LanguageModel const& model, optim::AdamW& optimizer) {
    std::vector<Moments> moments;
    for (auto const& parameter : model.named_parameters()) {
        auto const found = optimizer.state().find(parameter.value().unsafeGetTensorImpl());
        if (found != optimizer.state().end()) {
            auto const& state = static_cast<optim::AdamWParamState const&>(*found->second);
            moments.push_back({parameter.key(), state.exp_avg(), state.exp_avg_sq()});
        }
    }
    return moments;
}

void make_moments(
    LanguageModel const& model, optim::AdamW& optimizer, std::int64_t updates, Budget& budget
) {
    at::NoGradGuard const no_grad;
    for (at::Tensor const& parameter : model.parameters()) {
        auto state = std::make_unique<optim::AdamWParamState>();
        state->step(updates);
        state->exp_avg(at::zeros_like(parameter));
        state->exp_avg_sq(at::zeros_like(parameter));
        optimizer.state()[parameter.unsafeGetTensorImpl()] = std::move(state);
        budget.let_leave(moments_of_one(optimizer, parameter));
    }
}

}  // namespace spillway::train
