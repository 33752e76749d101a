// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The clock of measured times: reports and timelines.
#pragma once

#include <chrono>
#include <cstdint>

namespace spillway {

/// Nanoseconds of the steady clock: only differences mean something.
[[nodiscard]] inline std::int64_t steady_now_ns() {
    auto const now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

/// From when to when, on that clock; half-open. Zeros: not measured.
struct Interval {
    std::int64_t start_ns = 0;
    std::int64_t end_ns = 0;

    [[nodiscard]] bool is_measured() const { return end_ns != 0; }
};

}  // namespace spillway
