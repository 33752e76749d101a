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

}  // namespace

void StepEstimate::own(std::vector<at::Tensor> const& tensors, Device const& device) {
    std::int64_t bytes = 0;
    for (at::Tensor const& tensor : tensors) {
        bool const wants = tensor.defined() && tensor.is_leaf() && tensor.requires_grad();
        if (wants && tensor.layout() == c10::kStrided && !tensor.grad().defined()) {
            bytes += device.rounded(static_cast<std::int64_t>(tensor.nbytes()));
        }
    }
    gradient_bytes_ = bytes;
}

void StepEstimate::update_begins(std::int64_t needed_bytes, std::int64_t state_bytes) {
    update_bytes_ = state_bytes > 0 ? needed_bytes + state_bytes : 0;
}

std::string StepEstimate::words(std::int64_t needed_bytes, Phase phase) const {
    std::int64_t const update_bytes = update_bytes_;
    std::int64_t whole_bytes = update_bytes;
    if (update_bytes == 0 && phase != Phase::update) {
        Backward const backward = what_runs_here();
        bool const is_before = phase != Phase::backward && backward.roots.empty();
        whole_bytes =
            needed_bytes + (is_before ? gradient_bytes_.load() : missing_gradient_bytes(backward));
    }
    if (needed_bytes == 0 || whole_bytes <= needed_bytes) {
        return {};
    }
    whole_bytes += whole_bytes / kSlack;
    return " About " + format_size(whole_bytes) + " (" + std::to_string(whole_bytes) +
           " bytes) are needed once every parameter has " +
           (update_bytes > 0 ? "its optimizer state." : "a gradient.");
}

}  // namespace spillway
