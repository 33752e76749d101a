// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a whole step needs at least, where a part of it was refused: parameters stay beside all
// their gradients and what an optimizer keeps. Nothing is guessed of what else a step will hold.
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
    /// Parameters among them that require a gradient get one that stays, but where a hook of the
    /// parameter's takes it.
    void own(std::vector<at::Tensor> const& tensors, Device const& device);

    /// The first step of an optimizer begins: it will allocate `state_bytes`, which stay, so that
    /// later steps need them beside the `needed_bytes` of this one. 0: not known, or none.
    void update_begins(std::int64_t needed_bytes, std::int64_t state_bytes);
    void update_ends() { is_stepping_ = false; }
    /// Where nobody reports an optimizer: an update phase is over, and left what it allocated.
    void updated() { has_updated_ = true; }

    /// Lower bounds that are above the `needed_bytes` that a refusal proved; 0 where they are not.
    struct Whole {
        enum class Known : std::uint8_t { nothing, of_this_step, of_steps_before };

        std::int64_t with_gradients_bytes = 0;  ///< as in Refusal
        std::int64_t with_optimizer_bytes = 0;
        Known known = Known::nothing;  ///< of the optimizer; nothing: Adam, if it steps

        /// " Give at least 24.0 MiB (25165824 bytes), ..."; empty if there is no bound.
        [[nodiscard]] std::string words() const;
    };
    /// `stays_bytes`: of parameters, buffers and optimizer state, as far as they are there.
    [[nodiscard]] Whole whole(std::int64_t needed_bytes, std::int64_t stays_bytes, Phase phase)
        const;

  private:
    std::atomic<std::int64_t> trainable_bytes_ = 0;
    std::atomic<std::int64_t> gradient_bytes_ = 0;  ///< of those that stay until an update
    std::atomic<bool> has_updated_ = false;
    std::atomic<bool> is_stepping_ = false;
    std::atomic<std::int64_t> later_bytes_ = 0;  ///< that later steps need; 0: not known
};

}  // namespace spillway
