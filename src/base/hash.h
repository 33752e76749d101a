// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// XXH3, 64 bits, of bytes that are given in parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace spillway {

/// Folds bytes into one number, the same however they are cut into parts. Allocates nothing.
///
/// Thread  not thread-safe
class Hash {
  public:
    Hash();
    void add(std::span<std::byte const> bytes);
    [[nodiscard]] std::uint64_t value() const;

  private:
    alignas(64) std::byte state_[576];  // XXH3_state_t
};

}  // namespace spillway
