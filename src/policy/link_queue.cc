// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/link_queue.h"

#include <algorithm>

namespace spillway {

/// Behind those that are ready no later.
std::size_t LinkQueue::place_of(std::int64_t ready_ns) const {
    auto const after = std::upper_bound(
        transfers_.begin(),
        transfers_.end(),
        ready_ns,
        [](std::int64_t ready, Transfer const& each) { return ready < each.ready_ns; }
    );
    return static_cast<std::size_t>(after - transfers_.begin());
}

void LinkQueue::add(std::int64_t ready_ns, std::int64_t took_ns) {
    auto const at = static_cast<std::ptrdiff_t>(place_of(ready_ns));
    transfers_.insert(transfers_.begin() + at, {.ready_ns = ready_ns, .took_ns = took_ns});
    total_ns_ = 0;
    std::int64_t latest_ns = transfers_.front().ready_ns;
    for (Transfer& each : transfers_) {
        each.before_ns = total_ns_;
        total_ns_ += each.took_ns;
        latest_ns = std::max(latest_ns, each.ready_ns - each.before_ns);
        each.latest_ns = latest_ns;
    }
    std::int64_t from_ns = transfers_.back().ready_ns - transfers_.back().before_ns;
    for (auto each = transfers_.rbegin(); each != transfers_.rend(); ++each) {
        from_ns = std::max(from_ns, each->ready_ns - each->before_ns);
        each->latest_from_ns = from_ns;
    }
}

/// The link is never idle after the one whose ready time less what goes before it is the most.
std::int64_t LinkQueue::end_with(std::int64_t ready_ns, std::int64_t took_ns) const {
    std::size_t const at = place_of(ready_ns);
    bool const is_last = at == transfers_.size();
    std::int64_t latest_ns = ready_ns - (is_last ? total_ns_ : transfers_[at].before_ns);
    if (at > 0) {
        latest_ns = std::max(latest_ns, transfers_[at - 1].latest_ns);
    }
    if (!is_last) {
        latest_ns = std::max(latest_ns, transfers_[at].latest_from_ns - took_ns);
    }
    return latest_ns + total_ns_ + took_ns;
}

}  // namespace spillway
