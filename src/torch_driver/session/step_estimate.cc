// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/step_estimate.h"

#include "base/units.h"
#include "torch_driver/autograd/backward_order.h"
#include "torch_driver/states/storage_bytes.h"

namespace spillway {

namespace {

/// Tensors of a parameter's size that Adam keeps for it.
constexpr std::int64_t kAdamStates = 2;

/// "24.0 MiB (25165824 bytes)"
std::string size_words(std::int64_t bytes) {
    return format_size(bytes) + " (" + std::to_string(bytes) + " bytes)";
}

}  // namespace

void StepEstimate::own(std::vector<at::Tensor> const& tensors, Device const& device) {
    std::int64_t trainable_bytes = 0;
    std::int64_t gradient_bytes = 0;
    for (at::Tensor const& tensor : tensors) {
        bool const wants = tensor.defined() && tensor.is_leaf() && tensor.requires_grad();
        bool const is_unknown = wants && tensor.has_storage() &&
                                is_only_a_size(*tensor.storage().unsafeGetStorageImpl());
        if (wants && !is_unknown && tensor.layout() == c10::kStrided) {
            std::int64_t const bytes = device.rounded(static_cast<std::int64_t>(tensor.nbytes()));
            trainable_bytes += bytes;
            gradient_bytes += has_gradient_hook(tensor) ? 0 : bytes;
        }
    }
    trainable_bytes_ = trainable_bytes;
    gradient_bytes_ = gradient_bytes;
}

void StepEstimate::update_begins(std::int64_t needed_bytes, std::int64_t state_bytes) {
    has_updated_ = true;
    is_stepping_ = true;
    if (state_bytes > 0) {
        later_bytes_ = needed_bytes + state_bytes;
    }
}

StepEstimate::Whole StepEstimate::whole(
    std::int64_t needed_bytes, std::int64_t stays_bytes, Phase phase
) const {
    Whole whole;
    if (needed_bytes == 0) {
        return whole;
    }
    if (std::int64_t const later_bytes = later_bytes_; later_bytes > needed_bytes) {
        whole.with_optimizer_bytes = later_bytes;
        whole.known = is_stepping_ ? Whole::Known::of_this_step : Whole::Known::of_steps_before;
        return whole;
    }
    if (phase == Phase::update) {
        return whole;
    }
    std::int64_t const gradients_bytes = stays_bytes + gradient_bytes_;
    if (gradient_bytes_ > 0 && gradients_bytes > needed_bytes) {
        whole.with_gradients_bytes = gradients_bytes;
    }
    std::int64_t const optimizer_bytes = gradients_bytes + kAdamStates * trainable_bytes_;
    if (!has_updated_ && trainable_bytes_ > 0 && optimizer_bytes > needed_bytes) {
        whole.with_optimizer_bytes = optimizer_bytes;
    }
    return whole;
}

std::string StepEstimate::Whole::words() const {
    if (known == Known::of_this_step) {
        return " Give at least " + size_words(with_optimizer_bytes) +
               ", needed once the optimizer that steps here has all its state.";
    }
    if (known == Known::of_steps_before) {
        return " Give at least " + size_words(with_optimizer_bytes) +
               ": what a step before needed, and the state that its optimizer left.";
    }
    std::string words;
    if (with_gradients_bytes > 0) {
        words = " At least " + size_words(with_gradients_bytes) +
                " are needed once every parameter has a gradient.";
    }
    if (with_optimizer_bytes > 0) {
        words += " At least " + size_words(with_optimizer_bytes) +
                 " are needed if Adam steps: its first step adds its state.";
    }
    return words;
}

}  // namespace spillway
