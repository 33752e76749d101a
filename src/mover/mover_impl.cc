// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/mover_impl.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/units.h"
#include "tier/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace spillway {

namespace {

Error cancelled(Failure const& failure) {
    return {
        Errc::cancelled,
        fmt::format(
            "not started, since command {} failed: {}", failure.first.number, failure.error.what
        ),
        failure.error.where};
}

}  // namespace

Mover::Impl::~Impl() {
    std::vector<Move> dropped;
    {
        std::lock_guard const lock(guard_);
        stopping_ = true;
        dropped = lanes_.drop_waiting();
        starter_cv_.notify_all();
    }
    dropped.clear();
    starter_.join();
    {
        Lock lock(guard_);
        wait_until(lock, "a session that closes", [this] {
            return lanes_.under_way() == 0 && device_calls_ == 0;
        });
    }
    rooms_.clear();  // before the tiers; and those before what their threads may still touch
    host_.reset();
    nvme_.reset();
}

Tier* Mover::Impl::tier(Pool pool) const {
    switch (pool) {
        case Pool::host:
            return host_.get();
        case Pool::nvme:
            return nvme_.get();
        case Pool::device:
            break;
    }
    return nullptr;
}

Result<void> Mover::Impl::reserve(Pool pool, BlockId block, std::int64_t size_bytes) {
    Tier* const place = tier(pool);
    if (place == nullptr) {
        return Error{Errc::tier_full, "there is no such pool", std::string(name_of(pool))};
    }
    Result<Reservation> bytes = place->reserve(size_bytes);
    if (!bytes.ok()) {
        return bytes.error();
    }
    std::lock_guard const lock(guard_);
    bool const fresh = rooms_.try_emplace(block, Room{pool, std::move(*bytes), 0}).second;
    SPILLWAY_ASSERT(fresh, "a block is reserved once");
    return {};
}

void Mover::Impl::release(BlockId block) noexcept {
    Reservation bytes;  // handed back after the lock: the tier may hold a lock of its own
    std::lock_guard const lock(guard_);
    auto const room = rooms_.find(block);
    SPILLWAY_ASSERT(room != rooms_.end(), "a block is released once, after it was reserved");
    SPILLWAY_ASSERT(room->second.moves == 0, "a block is released after its stores and loads");
    bytes = std::move(room->second.bytes);
    rooms_.erase(room);
}

void Mover::Impl::give(Move move) {
    CommandId const fence = move.fence;
    EventId const done_before = device_->record(device_->compute_stream());
    move.device_ready = device_->passed(done_before);
    bool const must_wait = !move.device_ready;
    Lock lock(guard_);
    auto const room = rooms_.find(move.block);
    SPILLWAY_ASSERT(room != rooms_.end(), "a block is reserved before it is used");
    move.pool = room->second.pool;
    ++room->second.moves;
    std::size_t const lane = Lanes::lane_of(lanes_.add(std::move(move)));
    if (must_wait) {
        ++device_calls_;
        lock.unlock();
        device_->call_when_passed(done_before, [this, fence] { on_device_ready(fence); });
        lock.lock();
    }
    start_ready(lane, lock);
}

void Mover::Impl::on_device_ready(CommandId fence) {
    std::lock_guard const lock(guard_);
    --device_calls_;
    if (Move* const move = lanes_.find(fence)) {  // else it was cancelled
        move->device_ready = true;
    }
    wake_starter();
    ended_cv_.notify_all();
}

// Starts what can start on `lane`, in order. One thread at a time: whoever comes second leaves it
// to the first, which looks again after each start.
void Mover::Impl::start_ready(std::size_t lane, Lock& lock) {
    if (starting_[lane]) {
        return;
    }
    starting_[lane] = true;
    while (Move* const move = stopping_ ? nullptr : lanes_.ready(lane)) {
        lanes_.start(*move);
        if (std::optional<Failure> failure = lanes_.failure_of(*move)) {
            Error const error = cancelled(*failure);
            end(move->fence, error, std::move(failure));
        } else {
            start(*move, lock);
        }
    }
    starting_[lane] = false;
}

void Mover::Impl::start(Move& move, Lock& lock) {
    CommandId const fence = move.fence;
    Reservation const& room = rooms_.at(move.block).bytes;  // stays put while the move lives
    Tier& place = *tier(move.pool);
    bool const is_store = move.is_store();
    auto const from = move.from;
    auto const to = move.to;
    auto done = [this, fence](Result<void> outcome) { on_done(fence, std::move(outcome)); };
    lock.unlock();
    if (is_store) {
        place.store(room, from, std::move(done));
    } else {
        place.load(room, to, std::move(done));
    }
    lock.lock();
}

void Mover::Impl::on_done(CommandId fence, Result<void> outcome) {
    std::lock_guard const lock(guard_);
    std::optional<Failure> failure;
    if (!outcome.ok()) {
        failure = Failure{fence, outcome.error()};
    }
    end(fence, std::move(outcome), std::move(failure));
}

void Mover::Impl::end(CommandId fence, Result<void> outcome, std::optional<Failure> failure) {
    Move move = lanes_.end(fence, std::move(failure));
    --rooms_.at(move.block).moves;
    ended_.push_back({{fence, std::move(outcome)}, std::move(move.hold)});
    ended_count_.fetch_add(1, std::memory_order_release);
    wake_starter();
    ended_cv_.notify_all();
}

// Only where there is something to start that no thread will see anyhow.
void Mover::Impl::wake_starter() {
    for (std::size_t lane = 0; lane < Lanes::kCount; ++lane) {
        if (!starting_[lane] && lanes_.ready(lane) != nullptr) {
            starter_needed_ = true;
            starter_cv_.notify_one();
            return;
        }
    }
}

void Mover::Impl::run_starter() {
    enter_io_thread("spillway-mover");
    Lock lock(guard_);
    while (true) {
        starter_cv_.wait(lock, [this] { return starter_needed_ || stopping_; });
        if (stopping_) {
            return;
        }
        starter_needed_ = false;
        for (std::size_t lane = 0; lane < Lanes::kCount; ++lane) {
            start_ready(lane, lock);
        }
    }
}

template <typename Condition>
std::int64_t Mover::Impl::wait_until(Lock& lock, char const* who, Condition const& condition) {
    if (condition()) {
        return 0;
    }
    auto const began = std::chrono::steady_clock::now();
    auto const waited = [&] { return std::chrono::steady_clock::now() - began; };
    while (!ended_cv_.wait_for(lock, patience_, condition)) {
        say_who_waits(who, waited());
    }
    return std::chrono::nanoseconds(waited()).count();
}

/// A wait past its limit names both: who waits, and for what.
void Mover::Impl::say_who_waits(char const* who, std::chrono::nanoseconds waited) const {
    Move const* const oldest = lanes_.oldest();
    if (oldest == nullptr) {
        say(fmt::format(
            "{} has waited {} s for the device's queue", who, waited.count() / 1'000'000'000
        ));
        return;
    }
    auto const size =
        static_cast<std::int64_t>(oldest->is_store() ? oldest->from.size() : oldest->to.size());
    say(fmt::format(
        "{} has waited {} s for {}: a {} of {} (command {}) has {}; {} are under way",
        who,
        waited.count() / 1'000'000'000,
        tier(oldest->pool)->name(),
        oldest->is_store() ? "store" : "load",
        format_size(size),
        oldest->fence.number,
        oldest->started ? "not ended" : "not started",
        lanes_.under_way()
    ));
}

std::int64_t Mover::Impl::wait(std::span<CommandId const> fences) {
    Lock lock(guard_);
    return wait_until(lock, "compute", [&] {
        return std::all_of(fences.begin(), fences.end(), [this](CommandId fence) {
            return lanes_.ended(fence);
        });
    });
}

std::int64_t Mover::Impl::wait_for_any() {
    Lock lock(guard_);
    return wait_until(lock, "a session that closes", [this] {
        return !ended_.empty() || lanes_.under_way() == 0;
    });
}

std::vector<Completion> Mover::Impl::take_completions() {
    std::vector<Ended> taken;
    {
        std::lock_guard const lock(guard_);
        taken.swap(ended_);
        ended_count_.store(0, std::memory_order_release);
    }
    std::vector<Completion> completions;
    completions.reserve(taken.size());
    for (Ended& ended : taken) {
        completions.push_back(std::move(ended.completion));
    }
    return completions;  // the holds go with `taken`, outside the lock
}

}  // namespace spillway
