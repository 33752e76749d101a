// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/rate_limited_tier.h"

#include "base/assert.h"
#include "tier/transfer.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace spillway {

namespace {

constexpr Direction kWays[]{Direction::store, Direction::load};

}  // namespace

RateLimitedTier::RateLimitedTier(
    std::unique_ptr<Tier> wrapped, BytesPerSec rate, std::function<std::int64_t()> now_ns
)
    : wrapped_(std::move(wrapped)),
      rate_(rate),
      now_ns_(std::move(now_ns)),
      last_end_ns_{now_ns_(), now_ns_()},
      completer_([this] { run(); }) {
    SPILLWAY_ASSERT(rate_.count > 0, "bytes flow");
}

RateLimitedTier::~RateLimitedTier() {
    {
        MutexLock const lock(guard_);
        stopping_ = true;
    }
    changed_.notify_all();
    completer_.join();
    SPILLWAY_ASSERT(rooms_.empty(), "a Reservation outlives its tier");
}

void RateLimitedTier::end_limits() noexcept {
    MutexLock const lock(guard_);
    is_limited_ = false;
    changed_.notify_all();
}

void RateLimitedTier::look_at_clock() {
    MutexLock const lock(guard_);
    changed_.notify_all();
}

Result<std::int64_t> RateLimitedTier::take_entry(std::int64_t size_bytes) {
    Result<Reservation> room = wrapped_->reserve(size_bytes);
    if (!room.ok()) {
        return room.error();
    }
    MutexLock const lock(guard_);
    std::int64_t const entry = entries_.add(0, size_bytes, size_bytes, 0);
    rooms_.emplace(entry, std::move(room).value());
    return entry;
}

void RateLimitedTier::give_entry_back(std::int64_t entry) noexcept {
    Reservation room;  // handed back after the lock: the wrapped tier has one of its own
    MutexLock const lock(guard_);
    entries_.remove(entry);
    auto const at = rooms_.find(entry);
    room = std::move(at->second);
    rooms_.erase(at);
}

Reservation const& RateLimitedTier::room_of(std::int64_t entry) const {
    MutexLock const lock(guard_);
    return rooms_.at(entry);
}

void RateLimitedTier::store(
    Reservation const& room, std::span<std::byte const> from, TierDone done
) {
    TierDone ended = enter(room, Direction::store, std::ssize(from), std::move(done));
    if (ended) {
        wrapped_->store(room_of(room.entry()), from, std::move(ended));
    }
}

void RateLimitedTier::load(Reservation const& room, std::span<std::byte> to, TierDone done) {
    TierDone ended = enter(room, Direction::load, std::ssize(to), std::move(done));
    if (ended) {
        wrapped_->load(room_of(room.entry()), to, std::move(ended));
    }
}

/// The `done` for the wrapped tier; none where there is nothing to ask it for.
TierDone RateLimitedTier::enter(
    Reservation const& room, Direction way, std::int64_t size_bytes, TierDone done
) {
    Result<TierEntry*> const entry = entries_.begin(room.entry(), way, size_bytes);
    if (!entry.ok()) {
        done(Error{entry.error().code, entry.error().what, name()});
        return nullptr;
    }
    MutexLock const lock(guard_);
    Flow* const flow = &flows_[index_of(way)].emplace_back(Flow{
        .entry = room.entry(),
        .done = std::move(done),
        .took_ns = (Bytes{size_bytes} / rate_).count,
        .started_ns = now_ns_()});
    return [this, flow](Result<void> outcome) {  // it stays put in the deque until it has ended
        MutexLock const ended(guard_);
        flow->tier_ended_ns = now_ns_();
        flow->outcome = std::move(outcome);
        changed_.notify_all();
    };
}

void RateLimitedTier::run() {
    enter_io_thread("spillway-link");
    MutexLock const lock(guard_);
    while (true) {
        if (end_first(Direction::store) || end_first(Direction::load)) {
            continue;
        }
        if (stopping_ && flows_[0].empty() && flows_[1].empty()) {
            return;
        }
        wait();
    }
}

std::int64_t RateLimitedTier::end_of(Flow const& flow, Direction way) const {
    std::int64_t const begun_ns = std::max(flow.started_ns, last_end_ns_[index_of(way)]);
    return std::max(begun_ns + flow.took_ns, flow.tier_ended_ns);
}

/// Ends the first block of a direction if its time has come.
bool RateLimitedTier::end_first(Direction way) {
    std::deque<Flow>& flows = flows_[index_of(way)];
    if (flows.empty() || !flows.front().outcome) {
        return false;
    }
    std::int64_t const end_ns = end_of(flows.front(), way);
    if (!stopping_ && is_limited_ && now_ns_() < end_ns) {
        return false;
    }
    last_end_ns_[index_of(way)] = end_ns;
    Flow flow = std::move(flows.front());
    flows.pop_front();
    MutexUnlock const unlocked(guard_);
    entries_.end(flow.entry, way, flow.outcome->ok());
    flow.done(std::move(*flow.outcome));
    return true;
}

/// Until something changes, or the first end that is known is due.
void RateLimitedTier::wait() {
    constexpr auto kNone = std::numeric_limits<std::int64_t>::max();
    std::int64_t due_ns = kNone;
    for (Direction const way : kWays) {
        std::deque<Flow> const& flows = flows_[index_of(way)];
        if (!flows.empty() && flows.front().outcome) {
            due_ns = std::min(due_ns, end_of(flows.front(), way));
        }
    }
    if (due_ns == kNone) {
        changed_.wait(guard_);
    } else {
        changed_.wait_for(guard_, std::chrono::nanoseconds(due_ns - now_ns_()));
    }
}

Result<void> RateLimitedTier::damage(
    Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
) {
    return wrapped_->damage(room_of(room.entry()), first, count, mask);
}

TierCounters RateLimitedTier::counters() const {
    TierCounters now = wrapped_->counters();
    TierCounters const link = entries_.counters();
    now.stored_bytes = link.stored_bytes;
    now.loaded_bytes = link.loaded_bytes;
    now.store_ns = link.store_ns;
    now.load_ns = link.load_ns;
    return now;
}

}  // namespace spillway
