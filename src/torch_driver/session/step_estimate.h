// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a whole step needs, estimated where a part of it was refused: gradients that parameters do
// not have yet, and optimizer state that is still to be allocated, come on top.
#pragma once

#include "base/phase.h"
#include "memory/device.h"

#include <ATen/core/Tensor.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

/// Thread  any
class StepEstimate {
  public:
    /// Parameters among them that have no gradient will get one in the next backward; it stays, but
    /// where a hook of the parameter's takes it.
    void own(std::vector<at::Tensor> const& tensors, Device const& device);

    /// The first step of an optimizer begins: it will allocate `state_bytes`, which stay, so that
    /// later steps need them beside the `needed_bytes` of this one. 0: not known, or none.
    void update_begins(std::int64_t needed_bytes, std::int64_t state_bytes);
    void update_ends() { update_bytes_ = 0; }
    /// Where nobody reports an optimizer: an update phase is over, and left what it allocated.
    void updated() { has_updated_ = true; }

    /// What comes beside the `needed_bytes` that a refusal proved, on the thread that was refused.
    struct Whole {
        std::int64_t with_gradients_bytes = 0;  ///< as in Refusal
        std::int64_t with_optimizer_bytes = 0;
        bool is_stepping = false;  ///< the optimizer is the one that steps; else Adam, as a guess

        /// " About 24.0 MiB (25165824 bytes) are needed once every parameter has a gradient.", and
        /// what an optimizer adds. Empty if that is no more.
        [[nodiscard]] std::string words() const;
    };
    [[nodiscard]] Whole whole(std::int64_t needed_bytes, Phase phase) const;

  private:
    std::atomic<std::int64_t> trainable_bytes_ = 0;
    std::atomic<std::int64_t> gradient_bytes_ =
        0;  ///< that trainable parameters will get, and keep
    std::atomic<bool> has_updated_ = false;
    std::atomic<std::int64_t> update_bytes_ = 0;  ///< of later steps; 0: no update is under way
};

}  // namespace spillway
