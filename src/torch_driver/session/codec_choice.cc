// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/codec_choice.h"

#include <ATen/Context.h>

#include <utility>

namespace spillway {

CodecChoice::CodecChoice(std::unique_ptr<CodecRule> rule) : rule_(std::move(rule)) {}

void CodecChoice::phase_begins(Phase phase) {
    std::lock_guard const lock(mutex_);
    rule_->phase_begins(phase);
}

void CodecChoice::backward_needs() {
    std::lock_guard const lock(mutex_);
    rule_->backward_needs();
}

SavedAs CodecChoice::of(SavedTensors::Fresh const& fresh, Phase phase, std::int64_t step) {
    Dtype const dtype = codec_dtype_of(fresh.saver.dtype);
    if (fresh.storage_bytes % size_of(dtype) != 0) {
        return {};
    }
    SavedTensor const tensor{
        .tensor_class = fresh.saver.tensor_class,
        .dtype = dtype,
        .count = fresh.storage_bytes / size_of(dtype),
        .size_bytes = fresh.size_bytes,
        .is_whole = fresh.is_whole,
        .phase = phase,
        .step = step,
        .slot = &fresh.slot};
    std::lock_guard const lock(mutex_);
    SavedAs as = rule_->of(tensor);
    bool const is_exact = exact_ || at::globalContext().deterministicAlgorithms();
    if (is_exact && as.encoding && is_lossy(as.encoding->codec)) {
        as.encoding.reset();
    }
    return as;
}

}  // namespace spillway
