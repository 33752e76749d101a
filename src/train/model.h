// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The models, as a user of libtorch would write them: no Spillway in sight.
#pragma once

#include "train/model_shape.h"

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace spillway::train {

/// One block of a model, [batch, sequence, width] in and out. It lives as long as the model and may
/// be called again.
using RunBlock = std::function<at::Tensor(at::Tensor const&)>;

/// A language model: ids in, logits over the vocabulary out.
///
/// Shapes  ids [batch, sequence] i64 -> logits [batch, sequence, vocab_size]
class LanguageModel : public torch::nn::Module {
  public:
    virtual at::Tensor forward(at::Tensor const& ids) = 0;

    /// From now on `runner` runs each block in forward: for measurements that compare with
    /// checkpointing by blocks.
    void run_blocks_by(std::function<at::Tensor(RunBlock const&, at::Tensor const&)> runner) {
        runner_ = std::move(runner);
    }

  protected:
    [[nodiscard]] at::Tensor run(RunBlock const& block, at::Tensor const& x) const {
        return runner_ ? runner_(block, x) : block(x);
    }

  private:
    std::function<at::Tensor(RunBlock const&, at::Tensor const&)> runner_;
};

/// GPT-2-style: learned positions, layer norm before each part, GELU, tied head.
///
/// Source  Radford et al., Language Models are Unsupervised Multitask Learners, 2019
[[nodiscard]] std::shared_ptr<LanguageModel> make_gpt2(
    ModelShape const& shape, std::int64_t seed, c10::Device device
);

/// LLaMA-style: rotary positions, RMS norm, SwiGLU, grouped queries, head of its own.
///
/// Source  Touvron et al., Llama 2: Open Foundation and Fine-Tuned Chat Models, 2023
[[nodiscard]] std::shared_ptr<LanguageModel> make_llama(
    ModelShape const& shape, std::int64_t seed, c10::Device device
);

/// The model of `shape` on `device`, with first weights that depend on `seed` alone.
[[nodiscard]] std::shared_ptr<LanguageModel> make_model(
    ModelShape const& shape, std::int64_t seed, c10::Device device
);

/// Mean cross entropy of `logits` against `targets` [batch, sequence] i64; a scalar in fp32.
[[nodiscard]] at::Tensor loss_of(at::Tensor const& logits, at::Tensor const& targets);

}  // namespace spillway::train
