// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Vector clocks: what an actor (the host, or one stream of one device) knows to have happened. An
// access of actor A at tick t happened before whoever has t <= clock.of(A).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace late {

using Actor = std::uint32_t;  ///< 0 is the host: all its threads are one, taken as ordered
inline constexpr Actor kHost = 0;

class Clock {
  public:
    [[nodiscard]] std::uint64_t of(Actor actor) const {
        return actor < ticks_.size() ? ticks_[actor] : 0;
    }

    /// The next tick of `actor` itself.
    std::uint64_t advance(Actor actor) {
        reach(actor + 1);
        return ++ticks_[actor];
    }

    /// Knows from now on what `other` knows.
    void join(Clock const& other) {
        reach(other.ticks_.size());
        for (std::size_t i = 0; i < other.ticks_.size(); ++i) {
            ticks_[i] = std::max(ticks_[i], other.ticks_[i]);
        }
    }

  private:
    void reach(std::size_t count) {
        if (ticks_.size() < count) {
            ticks_.resize(count);
        }
    }

    std::vector<std::uint64_t> ticks_;
};

}  // namespace late
