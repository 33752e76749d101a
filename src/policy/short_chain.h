// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A long chain as one of fewer stages, for programs whose time grows with the square of a chain's
// length: stages in a row become one stage, which is kept, moved or made again as a whole.
#pragma once

#include "policy/stages.h"

#include <cstddef>
#include <vector>

namespace spillway {

struct ShortChain {
    std::vector<Stage> stages;
    std::vector<std::size_t> counts;  ///< stages of the long chain that each stands for

    /// For the long chain: what each fate means for the stages that its stage stands for.
    [[nodiscard]] std::vector<StageFate> fates_of_all(std::vector<StageFate> const& fates) const;
};

/// A chain of at most 2 * most stages is returned as it is. A longer one becomes one of at most so
/// many and one more; its last stage, the loss's, stays alone.
///
/// Bound   a stage that stands for several has no more than 2 / most of the chain's stages, and of
///         its bytes
[[nodiscard]] ShortChain shortened(std::vector<Stage> const& stages, std::size_t most);

}  // namespace spillway
