// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One direction of a link as a queue: transfers go one at a time, in the order in which they can
// begin. Loads that are to be done by a deadline are the same with time running backwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

/// Times in nanoseconds.
class LinkQueue {
  public:
    void add(std::int64_t ready_ns, std::int64_t took_ns);
    /// When the last one ends if this one were there, too. Logarithmic.
    [[nodiscard]] std::int64_t end_with(std::int64_t ready_ns, std::int64_t took_ns) const;

  private:
    struct Transfer {
        std::int64_t ready_ns = 0;
        std::int64_t took_ns = 0;
        std::int64_t before_ns = 0;       ///< that those before it take
        std::int64_t latest_ns = 0;       ///< of those up to here: the most of ready less before
        std::int64_t latest_from_ns = 0;  ///< the same of those from here on
    };

    [[nodiscard]] std::size_t place_of(std::int64_t ready_ns) const;

    std::vector<Transfer> transfers_;  ///< by `ready_ns`
    std::int64_t total_ns_ = 0;
};

}  // namespace spillway
