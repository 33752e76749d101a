// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/step_estimate.h"

#include "base/units.h"
#include "torch_driver/autograd/backward_order.h"
#include "torch_driver/autograd/engine.h"
#include "torch_driver/states/storage_bytes.h"

namespace spillway {

namespace {

/// One part in so many: what rounding and small tensors beside the large ones take.
constexpr std::int64_t kSlack = 64;

/// Tensors of a parameter's size that Adam keeps for it.
constexpr std::int64_t kAdamStates = 2;

std::int64_t rounded_up(std::int64_t bytes) {
    return bytes + bytes / kSlack;
}

/// "24.0 MiB (25165824 bytes)"
std::string about(std::int64_t bytes) {
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

StepEstimate::Whole StepEstimate::whole(std::int64_t needed_bytes, Phase phase) const {
    Whole whole;
    if (needed_bytes == 0) {
        return whole;
    }
    if (std::int64_t const update_bytes = update_bytes_; update_bytes > needed_bytes) {
        whole.with_optimizer_bytes = rounded_up(update_bytes);
        whole.is_stepping = true;
        return whole;
    }
    if (phase == Phase::update) {
        return whole;
    }
    Backward const backward = what_runs_here();
    bool const is_before = phase != Phase::backward && backward.roots.empty();
    std::int64_t const coming_bytes =
        is_before ? gradient_bytes_.load() : missing_gradient_bytes(backward);
    std::int64_t const gradients_bytes = needed_bytes + coming_bytes;
    if (coming_bytes > 0) {
        whole.with_gradients_bytes = rounded_up(gradients_bytes);
    }
    if (!has_updated_ && trainable_bytes_ > 0) {
        whole.with_optimizer_bytes = rounded_up(gradients_bytes + kAdamStates * trainable_bytes_);
    }
    return whole;
}

std::string StepEstimate::Whole::words() const {
    if (is_stepping) {
        return " Give at least about " + about(with_optimizer_bytes) +
               ", needed once the optimizer that steps here has all its state.";
    }
    if (with_optimizer_bytes == 0 && with_gradients_bytes == 0) {
        return {};
    }
    std::string words = " Give at least about ";
    if (with_optimizer_bytes > 0) {
        words += about(with_optimizer_bytes) + ": Adam's first step will add its state";
    }
    if (with_gradients_bytes > 0) {
        words += (with_optimizer_bytes > 0 ? " to the " : "") + about(with_gradients_bytes) +
                 ", needed once every parameter has a gradient";
    }
    return words + ".";
}

}  // namespace spillway
