// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which values a choice about a recipe looks at, so that what was refused once is looked at again
// only when something of that has changed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace spillway {

/// Note [Families]
/// Values are of one family when a recipe by which one of them went needs the other. What a need of
/// them would bring back gets larger as more of them go, and smaller when one has come back or is
/// over: then the family *shrinks*. A family never splits, so that it may be looked at once too
/// often. All end when nothing is gone any more.
///
/// Thread  not thread-safe; owned by one Recompute
class Families {
  public:
    /// A new one, of one value.
    [[nodiscard]] std::int64_t begin() {
        parents_.push_back(parents_.size());
        shrunk_at_.push_back(0);
        return first_ + static_cast<std::int64_t>(parents_.size()) - 1;
    }
    [[nodiscard]] bool exists(std::int64_t family) const { return family >= first_; }
    /// Both exist. One from here on.
    void join(std::int64_t one, std::int64_t other);
    void shrink(std::int64_t family) { shrunk_at_[root_of(family)] = ++now_; }
    void end_all() {
        first_ += static_cast<std::int64_t>(parents_.size());
        parents_.clear();
        shrunk_at_.clear();
        ended_at_ = ++now_;
    }

    /// Shrinks and ends so far.
    [[nodiscard]] std::int64_t now() const { return now_; }
    /// When the family shrank last; of none: when all ended last.
    [[nodiscard]] std::int64_t shrunk_at(std::int64_t family) const {
        return exists(family) ? std::max(ended_at_, shrunk_at_[root_of(family)]) : ended_at_;
    }

  private:
    [[nodiscard]] std::size_t root_of(std::int64_t family) const;

    std::int64_t first_ = 0;                    ///< those before it have ended
    mutable std::vector<std::size_t> parents_;  ///< its own: it is the root
    std::vector<std::int64_t> shrunk_at_;       ///< of roots
    std::int64_t now_ = 0;
    std::int64_t ended_at_ = 0;
};

}  // namespace spillway
