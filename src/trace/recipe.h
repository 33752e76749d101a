// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How a value is made again, as far as a choice depends on it. The operators are the driver's.
#pragma once

#include "base/ids.h"

#include <cstdint>
#include <vector>

namespace spillway {

struct RecipeShape {
    std::vector<ValueId> sources;      ///< on the device while it runs; none twice
    std::int64_t calls = 1;            ///< operators that run again
    std::int64_t duration_ns = 0;      ///< what they took when they ran first
    std::int64_t transient_bytes = 0;  ///< device bytes beside sources and result while it runs

    bool operator==(RecipeShape const&) const = default;
};

}  // namespace spillway
