// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which seeds a run tries. `--seed=N` tries that one only and says more; `--count=N` tries N per
// test, `--first=N` starts there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway::fuzz {

/// The seeds to try, `count` unless the command line says otherwise. Each seed is told to the
/// crash handler as it comes by.
class Seeds {
  public:
    class Iterator {
      public:
        explicit Iterator(std::uint64_t at) : at_(at) {}
        std::uint64_t operator*() const;
        Iterator& operator++() {
            ++at_;
            return *this;
        }
        bool operator!=(Iterator const& other) const { return at_ != other.at_; }

      private:
        std::uint64_t at_;
    };
    Seeds(std::uint64_t first, std::uint64_t end) : first_(first), end_(end) {}
    [[nodiscard]] Iterator begin() const { return Iterator(first_); }
    [[nodiscard]] Iterator end() const { return Iterator(end_); }

  private:
    std::uint64_t first_;
    std::uint64_t end_;
};

[[nodiscard]] Seeds seeds(std::uint64_t count);
/// How many times fewer seeds this build tries: more than 1 under a sanitizer.
[[nodiscard]] std::uint64_t slower();
/// Was one seed asked for?
[[nodiscard]] bool one_seed();
/// "seed 7 (again: --gtest_filter=Suite.test --seed=7): "
[[nodiscard]] std::string rerun(std::uint64_t seed);

}  // namespace spillway::fuzz
