// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace spillway::train {

double rate_at(Schedule const& schedule, std::int64_t step) {
    constexpr double kFloor = 0.1;
    if (step < schedule.warmup_steps) {
        return schedule.peak * static_cast<double>(step + 1) /
               static_cast<double>(schedule.warmup_steps);
    }
    auto const span =
        static_cast<double>(std::max<std::int64_t>(1, schedule.total_steps - schedule.warmup_steps)
        );
    double const done = std::min(1.0, static_cast<double>(step - schedule.warmup_steps) / span);
    double const cosine = 0.5 * (1.0 + std::cos(std::numbers::pi * done));
    return schedule.peak * (kFloor + (1.0 - kFloor) * cosine);
}

}  // namespace spillway::train
