// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/step_estimate.h"

#include "base/units.h"
#include "torch_driver/autograd/backward_order.h"
#include "torch_driver/autograd/engine.h"

namespace spillway {

namespace {

/// One part in so many: what rounding and small tensors beside the large ones take.
constexpr std::int64_t kSlack = 64;

/// Tensors of a parameter's size that Adam keeps for it.
constexpr std::int64_t kAdamStates = 2;

/// "24.0 MiB (25165824 bytes)", a little rounded up.
std::string about(std::int64_t bytes) {
    bytes += bytes / kSlack;
    return format_size(bytes) + " (" + std::to_string(bytes) + " bytes)";
}

}  // namespace

void StepEstimate::own(std::vector<at::Tensor> const& tensors, Device const& device) {
    std::int64_t trainable_bytes = 0;
    std::int64_t gradient_bytes = 0;
    for (at::Tensor const& tensor : tensors) {
        bool const wants = tensor.defined() && tensor.is_leaf() && tensor.requires_grad();
        if (wants && tensor.layout() == c10::kStrided) {
            std::int64_t const bytes = device.rounded(static_cast<std::int64_t>(tensor.nbytes()));
            trainable_bytes += bytes;
            gradient_bytes += tensor.grad().defined() || has_gradient_hook(tensor) ? 0 : bytes;
        }
    }
    trainable_bytes_ = trainable_bytes;
    gradient_bytes_ = gradient_bytes;
}

void StepEstimate::update_begins(std::int64_t needed_bytes, std::int64_t state_bytes) {
    has_updated_ = true;
    update_bytes_ = state_bytes > 0 ? needed_bytes + state_bytes : 0;
}

std::string StepEstimate::words(std::int64_t needed_bytes, Phase phase) const {
    if (needed_bytes == 0) {
        return {};
    }
    if (std::int64_t const update_bytes = update_bytes_; update_bytes > needed_bytes) {
        return " Give at least about " + about(update_bytes) +
               ", needed once the optimizer that steps here has all its state.";
    }
    if (phase == Phase::update) {
        return {};
    }
    Backward const backward = what_runs_here();
    bool const is_before = phase != Phase::backward && backward.roots.empty();
    std::int64_t const coming_bytes =
        is_before ? gradient_bytes_.load() : missing_gradient_bytes(backward);
    std::int64_t const whole_bytes = needed_bytes + coming_bytes;
    std::string const gradients = ", needed once every parameter has a gradient";
    if (has_updated_ || trainable_bytes_ == 0) {
        return coming_bytes > 0 ? " Give at least about " + about(whole_bytes) + gradients + "."
                                : "";
    }
    return " Give at least about " + about(whole_bytes + kAdamStates * trainable_bytes_) +
           ": Adam's first step will add its state" +
           (coming_bytes > 0 ? " to the " + about(whole_bytes) + gradients : "") + ".";
}

}  // namespace spillway
