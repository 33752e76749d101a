// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/mover_impl.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/rules.h"
#include "base/units.h"
#include "tier/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace spillway {

namespace {

/// How often a thread looks whether a copy has passed: a choice, short beside a transfer to a disk.
constexpr std::chrono::microseconds kLookEvery{100};

/// What staging is cut into: a page, as direct I/O wants it.
constexpr std::int64_t kStagingUnitBytes = 4096;

bool names(std::vector<CommandId> const& fences, CommandId fence) {
    return std::find(fences.begin(), fences.end(), fence) != fences.end();
}

Error cancelled(Failure const& failure) {
    return {
        Errc::cancelled,
        fmt::format(
            "not started, since command {} failed: {}", failure.first.number, failure.error.what
        ),
        failure.error.where};
}

}  // namespace

Mover::Impl::Impl(
    std::shared_ptr<Device> device,
    std::unique_ptr<Tier> host,
    std::unique_ptr<Tier> nvme,
    MoverOptions options
)
    : options_(std::move(options)),
      device_(std::move(device)),
      host_(std::move(host)),
      nvme_(std::move(nvme)),
      coded_staging_(options_.coded, memory_for_coding()),
      staging_(std::ssize(options_.staging.bytes()), kStagingUnitBytes) {
    if (options_.measure && !device_->is_host()) {
        base_ = device_->record(device_->copy_out_stream());
        base_ns_ = steady_now_ns();
    }
    if (options_.own_thread) {
        starter_ = std::thread([this] { run_starter(); });
        start_codec_threads();
    }
}

Mover::Impl::~Impl() {
    std::vector<Move> dropped;
    {
        std::lock_guard const lock(guard_);
        stopping_ = true;
        dropped = lanes_.drop_waiting();
        starter_cv_.notify_all();
    }
    dropped.clear();
    if (starter_.joinable()) {
        starter_.join();
    }
    if (keeps(Rule::closing_waits_for_copies)) {
        Lock lock(guard_);
        wait_until(lock, "a session that closes", [this] { return lanes_.under_way() == 0; });
    }
    stop_codec_threads();
    if (void* const memory = coded_staging_.device_memory()) {
        device_->free(memory);
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

TierCounters Mover::Impl::counters(Pool pool) const {
    Tier const* const place = tier(pool);
    TierCounters counters = place == nullptr ? TierCounters{} : place->counters();
    std::lock_guard const lock(guard_);
    TierCounters const& copied = copied_[static_cast<std::size_t>(pool)];
    counters.stored_bytes += copied.stored_bytes;
    counters.loaded_bytes += copied.loaded_bytes;
    counters.store_ns += copied.store_ns;
    counters.load_ns += copied.load_ns;
    return counters;
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
    bool const fresh = rooms_.try_emplace(block, Room{pool, std::move(*bytes)}).second;
    SPILLWAY_ASSERT(fresh, "a block is reserved once");
    return {};
}

void Mover::Impl::release(BlockId block) noexcept {
    Reservation bytes;  // handed back after the lock: the tier may hold a lock of its own
    std::lock_guard const lock(guard_);
    auto const room = rooms_.find(block);
    SPILLWAY_ASSERT(room != rooms_.end(), "a block is released once, after it was reserved");
    SPILLWAY_ASSERT(room->second.moves == 0, "a block is released after its stores and loads");
    give_coded_staging_back(block, room->second);
    lanes_.forget(room->second.failed);
    bytes = std::move(room->second.bytes);
    rooms_.erase(room);
}

void Mover::Impl::give(Move move) {
    Lock lock(guard_);
    auto const room = rooms_.find(move.block);
    SPILLWAY_ASSERT(room != rooms_.end(), "a block is reserved before it is used");
    move.is_coded = room->second.coded.has_value();
    bool const has_bytes = (move.is_coded && move.is_transfer()) || !move.device.bytes.empty();
    SPILLWAY_ASSERT(has_bytes, "a block has at least one byte");
    move.pool = room->second.pool;
    move.route = route_of(move, room->second);
    ++room->second.moves;
    note_positions(move);
    std::size_t const lane = Lanes::lane_of(lanes_.add(std::move(move)));
    start_ready(lane, lock);
}

// Starts what can start on `lane`, in order. One thread at a time: whoever comes second leaves it
// to the first, which looks again after each start.
void Mover::Impl::start_ready(std::size_t lane, Lock& lock) {
    if (starting_[lane]) {
        return;
    }
    starting_[lane] = true;
    while (Move* const move = stopping_ ? nullptr : lanes_.ready(lane)) {
        std::optional<Failure> failure = lanes_.failure_of(*move);
        if (!failure && !take_staging(*move)) {
            break;  // until some is given back
        }
        lanes_.start(*move);
        if (failure) {
            // What a load says for itself is what whoever waits for its decode is to hear.
            bool const is_own =
                move->work == SideWork::decode && names(move->after, failure->first);
            Error const error = is_own ? failure->error : cancelled(*failure);
            end(move->fence, error, std::move(failure));
        } else {
            start(*move, lock);
        }
    }
    starting_[lane] = false;
}

void Mover::Impl::start(Move& move, Lock& lock) {
    switch (move.route) {
        case Route::in_place:
            if (move.is_transfer()) {
                call_tier(move.fence, bytes_for_tier(move), lock);
            } else {
                start_coding(move, lock);
            }
            return;
        case Route::copied:
            enqueue_copy(move);
            return;
        case Route::staged:
            if (move.is_store()) {
                enqueue_copy(move);
            } else {
                if (!keeps(Rule::staging_is_copied_after_the_load)) {
                    enqueue_copy(move);
                }
                call_tier(move.fence, move.beside, lock);
            }
            return;
        case Route::coded:
            if (move.is_store()) {
                enqueue_encode(move);
            } else {
                start_coding(move, lock);
            }
            return;
    }
}

void Mover::Impl::call_tier(CommandId fence, std::span<std::byte> bytes, Lock& lock) {
    Move& move = *lanes_.find(fence);
    move.on_tier.start_ns = options_.measure ? steady_now_ns() : 0;
    Reservation const& room = rooms_.at(move.block).bytes;  // stays put while the move lives
    Tier& place = *tier(move.pool);
    bool const is_store = move.is_store();
    auto done = [this, fence](Result<void> outcome) { on_done(fence, std::move(outcome)); };
    lock.unlock();
    if (is_store) {
        place.store(room, bytes, std::move(done));
    } else {
        place.load(room, bytes, std::move(done));
    }
    lock.lock();
}

void Mover::Impl::on_done(CommandId fence, Result<void> outcome) {
    std::lock_guard const lock(guard_);
    Move* const move = lanes_.find(fence);
    SPILLWAY_ASSERT(move != nullptr, "a tier ends what it was given, once");
    move->on_tier.end_ns = options_.measure ? steady_now_ns() : 0;
    if (!outcome.ok()) {
        fail(fence, outcome.error());
    } else if (move->route == Route::staged && !move->is_store()) {
        loaded_.push_back(fence);
        starter_needed_ = true;
        starter_cv_.notify_one();
        ended_cv_.notify_all();
    } else {
        end(fence, {}, std::nullopt);
    }
}

void Mover::Impl::fail(CommandId fence, Error const& error) {
    end(fence, error, Failure{fence, error});
}

void Mover::Impl::end(CommandId fence, Result<void> outcome, std::optional<Failure> failure) {
    bool const has_failed = failure.has_value();
    Move move = lanes_.end(fence, std::move(failure));
    if (has_failed) {
        rooms_.at(move.block).failed.push_back(fence);
    }
    give_staging_back(move);
    give_coded_staging_back(move, outcome.ok());
    --rooms_.at(move.block).moves;
    ended_.push_back(
        {{fence, std::move(outcome), move.on_codec, move.on_tier, move.on_stream},
         std::move(move.device.hold)}
    );
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
    device_->enter_thread();
    Lock lock(guard_);
    auto const due = [this] { return starter_needed_ || stopping_; };
    while (true) {
        if (staged_copies_ > 0) {
            starter_cv_.wait_for(lock, kLookEvery, due);
        } else {
            starter_cv_.wait(lock, due);
        }
        if (stopping_) {
            return;
        }
        starter_needed_ = false;
        start_all(lock);
    }
}

void Mover::Impl::start_all(Lock& lock) {
    advance(lock);
    for (std::size_t lane = 0; lane < Lanes::kCount; ++lane) {
        start_ready(lane, lock);
    }
}

/// Nobody tells that a copy has passed: where there are some, it is looked for.
template <typename Condition>
std::int64_t Mover::Impl::wait_until(Lock& lock, char const* who, Condition const& condition) {
    if (condition()) {
        return 0;
    }
    auto const began = std::chrono::steady_clock::now();
    auto const waited = [&] { return std::chrono::steady_clock::now() - began; };
    auto patience = std::chrono::nanoseconds(options_.patience);
    while (!condition()) {
        if (device_->is_host()) {
            ended_cv_.wait_for(lock, options_.patience, condition);
        } else {
            start_all(lock);
            auto const pause = options_.own_thread ? kLookEvery : std::chrono::microseconds(0);
            ended_cv_.wait_for(lock, pause, condition);
        }
        if (waited() >= patience) {
            say_who_waits(who, waited());
            patience += options_.patience;
        }
    }
    return std::chrono::nanoseconds(waited()).count();
}

/// A wait past its limit names both: who waits, and for what.
void Mover::Impl::say_who_waits(char const* who, std::chrono::nanoseconds waited) const {
    Move const* const oldest = lanes_.oldest();
    if (oldest == nullptr) {
        return;
    }
    say(fmt::format(
        "{} has waited {} s for {}: a {} of {} (command {}) has {}; {} are under way",
        who,
        waited.count() / 1'000'000'000,
        tier(oldest->pool)->name(),
        oldest->name(),
        format_size(rooms_.at(oldest->block).bytes.size_bytes()),
        oldest->fence.number,
        oldest->started ? "not ended" : "not started",
        lanes_.under_way()
    ));
}

std::int64_t Mover::Impl::wait(std::span<CommandId const> fences) {
    std::vector<std::shared_ptr<void const>> released;  // goes after the lock
    Lock lock(guard_);
    auto const settled = [this](CommandId fence) {
        Move const* const move = lanes_.find(fence);
        return move == nullptr || streams_can_wait_for(*move);
    };
    std::int64_t const waited_ns = wait_until(lock, "compute", [&] {
        return std::all_of(fences.begin(), fences.end(), settled);
    });
    for (CommandId const fence : fences) {
        if (Move* const move = lanes_.find(fence)) {
            order_streams_after(*move, released);
        }
    }
    return waited_ns;
}

std::int64_t Mover::Impl::wait_for_any() {
    Lock lock(guard_);
    return wait_until(lock, "a session that closes", [this] {
        return !ended_.empty() || lanes_.under_way() == 0;
    });
}

bool Mover::Impl::has_completions() {
    if (copies_on_streams_.load(std::memory_order_relaxed) > 0 || !options_.own_thread) {
        Lock lock(guard_);
        start_all(lock);
    }
    return ended_count_.load(std::memory_order_acquire) > 0;
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

std::vector<StreamStall> Mover::Impl::take_stream_stalls() {
    std::lock_guard const lock(guard_);
    return std::exchange(stream_stalls_, {});
}

}  // namespace spillway
