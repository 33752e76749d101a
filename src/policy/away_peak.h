// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The device's peak as `peak_without` has it, for policies that send one value away after the other
// and ask each time: a look at the step for the first, a few sums for each further one.
#pragma once

#include "base/ids.h"
#include "policy/step_view.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

/// Thread  not thread-safe
class AwayPeak {
  public:
    /// Of nothing away. `step` outlives it.
    explicit AwayPeak(StepView const& step);

    /// The value, which can move and was not away, is away from now on, too. Logarithmic in points.
    void add(ValueId id);
    [[nodiscard]] std::int64_t peak_bytes() const;

  private:
    /// Of the points below a node of the tree: the change of held bytes over all of them, and the
    /// highest of floor and change up to one of them.
    struct Node {
        std::int64_t change_bytes = 0;
        std::int64_t most_bytes = 0;
    };

    [[nodiscard]] Node joined(std::size_t node) const;
    void change(std::size_t point, std::int64_t by_bytes);

    StepView const& step_;
    std::size_t leaves_ = 1;   ///< a power of two; point p is node leaves_ + p
    std::vector<Node> nodes_;  ///< node n is above 2 n and 2 n + 1
};

}  // namespace spillway
