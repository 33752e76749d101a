// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/extent_pool.h"

#include "base/assert.h"
#include "base/units.h"

#include <algorithm>
#include <iterator>

namespace spillway {

ExtentPool::ExtentPool(std::int64_t capacity_bytes, std::int64_t unit_bytes)
    : unit_bytes_(unit_bytes),
      capacity_bytes_(capacity_bytes / unit_bytes * unit_bytes),
      free_bytes_(capacity_bytes_) {
    if (capacity_bytes_ > 0) {
        holes_.emplace(0, capacity_bytes_);
    }
}

std::int64_t ExtentPool::rounded(std::int64_t size_bytes) const {
    return round_up(size_bytes, unit_bytes_);
}

std::optional<std::int64_t> ExtentPool::take(std::int64_t size_bytes) {
    if (size_bytes > capacity_bytes_) {
        return std::nullopt;  // also keeps the rounding from overflowing
    }
    std::int64_t const wanted = rounded(size_bytes);
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
        auto const [first, length] = *hole;
        if (length < wanted) {
            continue;
        }
        auto const next = holes_.erase(hole);
        if (length > wanted) {
            holes_.emplace_hint(next, first + wanted, length - wanted);
        }
        free_bytes_ -= wanted;
        return first;
    }
    return std::nullopt;
}

void ExtentPool::give_back(std::int64_t first, std::int64_t size_bytes) {
    std::int64_t length = rounded(size_bytes);
    free_bytes_ += length;
    SPILLWAY_ASSERT(first >= 0 && first + length <= capacity_bytes_, "an extent from elsewhere");
    auto const after = holes_.lower_bound(first);
    if (after != holes_.end()) {
        SPILLWAY_ASSERT(first + length <= after->first, "an extent is given back twice");
    }
    if (after != holes_.begin()) {
        auto const before = std::prev(after);
        SPILLWAY_ASSERT(before->first + before->second <= first, "an extent is given back twice");
        if (before->first + before->second == first) {
            first = before->first;
            length += before->second;
            holes_.erase(before);
        }
    }
    if (after != holes_.end() && first + length == after->first) {
        length += after->second;
        holes_.erase(after);
    }
    holes_.emplace(first, length);
}

std::int64_t ExtentPool::longest_hole_bytes() const {
    std::int64_t longest = 0;
    for (auto const& [first, length] : holes_) {
        longest = std::max(longest, length);
    }
    return longest;
}

}  // namespace spillway
