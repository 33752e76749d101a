// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The point of a step that needs the most device bytes when all that can leave has left: no budget
// below it works, whatever the policy.
#pragma once

#include "base/ids.h"
#include "trace/trace.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace spillway {

struct TightPoint {
    std::size_t point = 0;         ///< a place in `Trace::points`
    std::int64_t floor_bytes = 0;  ///< of that point
    std::int64_t size_bytes = 0;   ///< floor and values together
    /// That have to be on the device: needed or saved there, or not unshared yet. Largest first.
    std::vector<ValueId> values{};

    bool operator==(TightPoint const&) const = default;
};

/// The first of the tightest.
[[nodiscard]] TightPoint tightest_point(Trace const& trace);

/// One line: bytes, point, phase, module, the floor and the largest three values; empty: no points.
[[nodiscard]] std::string to_line(TightPoint const& tightest, Trace const& trace);

}  // namespace spillway
