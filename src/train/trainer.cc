// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/trainer.h"

#include "train/autocast.h"
#include "train/optimizer.h"
#include "train/random.h"
#include "train/schedule.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <chrono>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace spillway::train {

namespace {

constexpr std::int64_t kValidationBatches = 8;

std::span<std::int64_t> numbers_of(at::Tensor const& tensor) {
    return {tensor.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(tensor.numel())};
}

// Dropout draws from the device's default generator; set for each micro-batch, it has no state to
// save.
void seed_dropout(BatchKey const& key, c10::Device device) {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    std::lock_guard const lock(generator.mutex());
    generator.set_current_seed(mixed({key.seed, key.step, key.micro_batch, 0xd20}));
}

}  // namespace

Trainer::Trainer(
    TrainOptions const& options,
    ModelShape const& shape,
    Corpus const& corpus,
    Budget& budget,
    c10::Device device
)
    : options_(options),
      shape_(shape),
      corpus_(corpus),
      budget_(budget),
      device_(device),
      model_(make_model(shape, options.seed, device)),
      optimizer_(make_optimizer(*model_, options)) {
    own_all();
}

Trainer::~Trainer() = default;

float Trainer::step(std::int64_t step) {
    double loss = 0;
    forward_seconds_ = 0;
    for (std::int64_t micro_batch = 0; micro_batch < options_.accumulate; ++micro_batch) {
        loss += forward_and_backward(step, micro_batch);
    }
    enter(Phase::update, step);
    update(step);
    return static_cast<float>(loss / static_cast<double>(options_.accumulate));
}

float Trainer::validate() {
    at::NoGradGuard const no_grad;
    model_->eval();
    double loss = 0;
    for (std::int64_t number = 0; number < kValidationBatches; ++number) {
        loss += forward({.step = number, .held_out = true}).item<float>();
    }
    model_->train();
    return static_cast<float>(loss / static_cast<double>(kValidationBatches));
}

float Trainer::forward_and_backward(std::int64_t step, std::int64_t micro_batch) {
    enter(Phase::forward, step);
    auto const begin = std::chrono::steady_clock::now();
    at::Tensor loss = forward({options_.seed, step, micro_batch});
    auto const value = loss.item<float>();
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    forward_seconds_ += took.count();
    if (options_.accumulate > 1) {
        loss = loss / static_cast<double>(options_.accumulate);
    }
    enter(Phase::backward, step);
    loss.backward();
    return value;
}

at::Tensor Trainer::forward(BatchKey const& key) {
    at::Tensor const inputs = at::empty({shape_.batch, shape_.sequence}, at::kLong);
    at::Tensor const targets = at::empty({shape_.batch, shape_.sequence}, at::kLong);
    draw_batch(corpus_, key, shape_.sequence, numbers_of(inputs), numbers_of(targets));
    seed_dropout(key, device_);
    at::Tensor const here = inputs.to(device_);
    at::Tensor const wanted = targets.to(device_);
    auto const recording = budget_.record();
    Autocast const autocast(options_.precision == "bf16", device_.type());
    return loss_of(model_->forward(here), wanted);
}

GradientErrors Trainer::measure_gradients(std::int64_t step) {
    std::vector<Gradient> const measured = gradients_of(step);
    budget_.exact(true);
    std::vector<Gradient> const exact = gradients_of(step);
    budget_.exact(false);
    return gradient_errors(measured, exact);
}

// The gradients that the model has afterwards are none again.
std::vector<Gradient> Trainer::gradients_of(std::int64_t step) {
    for (std::int64_t micro_batch = 0; micro_batch < options_.accumulate; ++micro_batch) {
        (void)forward_and_backward(step, micro_batch);
    }
    enter(Phase::update, step);
    std::vector<Gradient> gradients;
    for (auto const& parameter : model_->named_parameters()) {
        Gradient& gradient = gradients.emplace_back();
        gradient.name = parameter.key();
        if (parameter.value().grad().defined()) {
            at::Tensor const here = parameter.value().grad().cpu().contiguous();
            auto const* const first = here.const_data_ptr<float>();
            gradient.values.assign(first, first + here.numel());
        }
    }
    optimizer_->zero_grad(/*set_to_none=*/true);
    return gradients;
}

void Trainer::update(std::int64_t step) {
    if (options_.clip > 0) {
        clip_gradients(*model_, options_.clip);
    }
    Schedule const schedule{
        .peak = options_.learning_rate,
        .warmup_steps = options_.warmup_steps,
        .total_steps = options_.steps};
    set_rate(*optimizer_, rate_at(schedule, step));
    if (options_.session.states == "optimizer") {
        step_by_parameters(*optimizer_, budget_, step % 2 == 1);
    } else {
        optimizer_->step();
    }
    optimizer_->zero_grad(/*set_to_none=*/true);
    if (!std::exchange(states_owned_, true)) {
        own_all();
    }
}

void Trainer::enter(Phase phase, std::int64_t step) {
    phase_ = phase;
    budget_.phase(phase, step + 1);  // messages count as people do
}

// Gradients are made anew each step and autograd never saves them, so they are not among these.
void Trainer::own_all() {
    std::vector<at::Tensor> tensors;
    std::vector<std::string> names;
    std::vector<OwnedKind> kinds;
    auto const add = [&](at::Tensor const& tensor, std::string const& name, OwnedKind kind) {
        tensors.push_back(tensor);
        names.push_back(name);
        kinds.push_back(kind);
    };
    for (auto const& parameter : model_->named_parameters()) {
        add(parameter.value(), parameter.key(), OwnedKind::parameter);
    }
    for (auto const& buffer : model_->named_buffers()) {
        add(buffer.value(), buffer.key(), OwnedKind::buffer);
    }
    for (Moments const& moments : moments_of(*model_, *optimizer_)) {
        add(moments.average, "optimizer state exp_avg", OwnedKind::optimizer_state);
        add(moments.average_of_squares, "optimizer state exp_avg_sq", OwnedKind::optimizer_state);
    }
    budget_.own(tensors, names, kinds);
}

}  // namespace spillway::train
