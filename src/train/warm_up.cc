// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/warm_up.h"

#include "train/budget.h"
#include "train/data.h"
#include "train/device.h"
#include "train/trainer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>

#include <cstdint>

namespace spillway::train {

namespace {

// Large enough for every thread to get its buffers for packed panels.
void multiply_matrices(c10::Device device) {
    at::NoGradGuard const no_grad;
    constexpr std::int64_t kRows = 1024;
    at::Tensor const a = at::randn({kRows, kRows}, device);
    at::mm(a, a);
    at::mm(a.t(), a);
}

}  // namespace

void warm_up(Style style, std::string const& precision, c10::Device device) {
    multiply_matrices(device);
    TrainOptions options;
    options.precision = precision;
    options.clip = 1.0;
    ModelShape const shape{
        .style = style,
        .layers = 1,
        .heads = 2,
        .kv_heads = 2,
        .width = 64,
        .hidden = 256,
        .vocab_size = 256,
        .positions = 64,
        .sequence = 64,
        .batch = 4,
        .dropout = 0.0};
    Corpus corpus;
    corpus.bytes.assign(static_cast<std::size_t>(2 * shape.sequence), 0);
    Budget none;
    {
        Trainer trainer(options, shape, corpus, none, device);
        trainer.step(0);
    }
    synchronize(device);
    reset_device_memory(device);
}

}  // namespace spillway::train
