// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The training loop's inside: one model, its optimizer, its text, one update at a time.
#pragma once

#include "spillway/train.h"
#include "train/budget.h"
#include "train/data.h"
#include "train/gradient_error.h"
#include "train/model.h"
#include "train/model_shape.h"

#include <torch/optim/adamw.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace spillway::train {

/// Thread  one thread makes it, steps it and destroys it
class Trainer {
  public:
    /// options.session.device is ignored: everything lives on `device`.
    Trainer(
        TrainOptions const& options,
        ModelShape const& shape,
        Corpus const& corpus,
        Budget& budget,
        c10::Device device
    );
    ~Trainer();
    Trainer(Trainer const&) = delete;
    Trainer& operator=(Trainer const&) = delete;

    /// Does update `step` (from 0) and returns the mean loss of its micro-batches. What it does
    /// depends on options, step and the state before it alone.
    ///
    /// Order   an accelerator may still be at the update when it returns
    float step(std::int64_t step);

    /// The mean loss of some batches of the held-out text, the same ones in every run: what it is
    /// now, with no dropout.
    float validate();

    /// What codecs do to the gradients of step `step`, of which nothing else comes: it is run as it
    /// always is, and once more without loss.
    [[nodiscard]] GradientErrors measure_gradients(std::int64_t step);

    /// Which phase of the step runs, for messages: the last one that the budget was notified of.
    [[nodiscard]] Phase phase() const { return phase_; }

    /// What the last step's forwards took, each until its loss was known to the host.
    [[nodiscard]] double forward_seconds() const { return forward_seconds_; }

    [[nodiscard]] LanguageModel& model() { return *model_; }
    [[nodiscard]] torch::optim::AdamW& optimizer() { return *optimizer_; }

  private:
    [[nodiscard]] std::vector<Gradient> gradients_of(std::int64_t step);
    float forward_and_backward(std::int64_t step, std::int64_t micro_batch);
    at::Tensor forward(BatchKey const& key);
    void update(std::int64_t step);
    void enter(Phase phase, std::int64_t step);
    void own_all();

    TrainOptions const& options_;
    ModelShape const& shape_;
    Corpus const& corpus_;
    Budget& budget_;
    c10::Device device_;
    Phase phase_ = Phase::setup;
    bool states_owned_ = false;
    double forward_seconds_ = 0;
    std::shared_ptr<LanguageModel> model_;
    std::unique_ptr<torch::optim::AdamW> optimizer_;
};

}  // namespace spillway::train
