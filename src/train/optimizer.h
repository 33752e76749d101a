// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// AdamW as GPTs are trained with it: matrices decay, vectors do not; gradients clipped by norm.
#pragma once

#include "spillway/train.h"
#include "train/budget.h"
#include "train/model.h"

#include <ATen/core/Tensor.h>
#include <torch/optim/adamw.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spillway::train {

/// Source  Loshchilov and Hutter, Decoupled Weight Decay Regularization, ICLR 2019
[[nodiscard]] std::unique_ptr<torch::optim::AdamW> make_optimizer(
    LanguageModel const& model, TrainOptions const& options
);

void set_rate(torch::optim::AdamW& optimizer, double rate);

/// Scales all gradients so that their joint norm is at most `most`.
void clip_gradients(LanguageModel const& model, double most);

/// A parameter's name and its two moments.
struct Moments {
    std::string name;
    at::Tensor average;
    at::Tensor average_of_squares;
};

/// The moments in the order of the model's parameters; none before the first update.
[[nodiscard]] std::vector<Moments> moments_of(
    LanguageModel const& model, torch::optim::AdamW& optimizer
);

/// Makes zero moments as after `updates` updates, to be filled from a checkpoint.
void make_moments(
    LanguageModel const& model, torch::optim::AdamW& optimizer, std::int64_t updates, Budget& budget
);

/// `optimizer.step()`, parameter by parameter, of which one alone has its moments on the device
/// where they may leave. The optimizer treats each parameter apart, so the bits are the same. The
/// gradients are gone then. `from_last`: in turn with the other order, so that what left last is
/// needed first.
void step_by_parameters(torch::optim::AdamW& optimizer, Budget& budget, bool from_last);

}  // namespace spillway::train
