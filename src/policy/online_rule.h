// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The rule by which a policy without a plan treats each saved value, while the chooser `online`
// decides when it moves.
#pragma once

#include <cstdint>

namespace spillway {

/// Bytes a second. 0: not known; for a codec: as fast as can be.
struct MoveRates {
    double out = 0;  ///< of the link, on encoded bytes
    double in = 0;
    double encode = 0;  ///< of the codecs, on raw bytes
    double decode = 0;

    bool operator==(MoveRates const&) const = default;
};

/// Units   `compute_ns`: of one clock of compute, from which its waits are taken off
/// Thread  not thread-safe
class OnlineRule {
  public:
    virtual ~OnlineRule() = default;

    virtual void forward_begins(std::int64_t compute_ns) = 0;
    virtual void backward_begins(std::int64_t compute_ns) = 0;
    /// Backward has asked for a saved value.
    virtual void needs(std::int64_t compute_ns) = 0;
    /// What was measured until now. Called where a forward begins, while `is_measuring`.
    virtual void set_rates(MoveRates const& rates) = 0;
    [[nodiscard]] virtual bool is_measuring() const = 0;
    /// Whether a forward's value that is saved now stays while it can; else it leaves at once.
    [[nodiscard]] virtual bool keeps(
        std::int64_t raw_bytes, std::int64_t away_bytes, std::int64_t compute_ns
    ) = 0;
};

}  // namespace spillway
