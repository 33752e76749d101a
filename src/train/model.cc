// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/model.h"

#include <ATen/ops/cross_entropy_loss.h>

namespace spillway::train {

std::shared_ptr<LanguageModel> make_model(
    ModelShape const& shape, std::int64_t seed, c10::Device device
) {
    return shape.style == Style::gpt2 ? make_gpt2(shape, seed, device)
                                      : make_llama(shape, seed, device);
}

at::Tensor loss_of(at::Tensor const& logits, at::Tensor const& targets) {
    at::Tensor const rows = logits.view({-1, logits.size(-1)}).to(at::kFloat);
    return at::cross_entropy_loss(rows, targets.view({-1}));
}

}  // namespace spillway::train
