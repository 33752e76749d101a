// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/delta.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace spillway {

namespace {

constexpr double kFirstRateBytesPerS = 0.35 * 32 * (std::int64_t{1} << 30);

/// Those below this share of the mean are passed over.
constexpr double kSmallShare = 0.01;

}  // namespace

std::vector<ValueId> delta_order(ValueTable const& values, std::vector<ValueId> some) {
    double sum_bytes = 0;
    for (ValueId const id : some) {
        sum_bytes += static_cast<double>(values.find(id)->size_bytes);
    }
    double const small_bytes =
        kSmallShare * sum_bytes / static_cast<double>(std::max<std::size_t>(1, some.size()));
    using Key = std::tuple<bool, double, ValueId>;
    std::vector<Key> keys;
    keys.reserve(some.size());
    for (ValueId const id : some) {
        Value const& value = *values.find(id);
        auto const size_bytes = static_cast<double>(value.size_bytes);
        auto const staleness = static_cast<double>(values.uses() - value.used_at + 1);
        keys.emplace_back(size_bytes < small_bytes, -size_bytes * staleness, id);
    }
    std::sort(keys.begin(), keys.end());
    std::transform(keys.begin(), keys.end(), some.begin(), [](Key const& key) {
        return std::get<ValueId>(key);
    });
    return some;
}

bool delta_remakes(std::int64_t size_bytes, std::int64_t move_ns, std::int64_t remake_ns) {
    double const first_ns = 2e9 * static_cast<double>(size_bytes) / kFirstRateBytesPerS;
    double const both_ways_ns = move_ns > 0 ? static_cast<double>(move_ns) : first_ns;
    return both_ways_ns > static_cast<double>(remake_ns);
}

}  // namespace spillway
