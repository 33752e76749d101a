// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The learning rate: linear warm-up, then half a cosine down to a tenth.
#pragma once

#include <cstdint>

namespace spillway::train {

struct Schedule {
    double peak = 0;                ///< after the warm-up
    std::int64_t warmup_steps = 0;  ///< 0: none
    std::int64_t total_steps = 1;
};

/// The rate of update `step` (from 0). Step 0 of a warm-up is peak / warmup_steps, not zero; steps
/// at or after the total stay at a tenth of the peak.
[[nodiscard]] double rate_at(Schedule const& schedule, std::int64_t step);

}  // namespace spillway::train
