// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/mover.h"

#include "base/assert.h"
#include "base/units.h"
#include "mover/lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

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

class Mover::Impl {
  public:
    Impl(std::shared_ptr<Device> device, std::unique_ptr<Tier> host, std::unique_ptr<Tier> nvme)
        : device_(std::move(device)),
          host_(std::move(host)),
          nvme_(std::move(nvme)),
          starter_([this] { run_starter(); }) {
        SPILLWAY_ASSERT(device_ != nullptr, "a mover has a device");
    }
    ~Impl();

    Result<void> reserve(Pool pool, BlockId block, std::int64_t size_bytes);
    void release(BlockId block) noexcept;
    void give(Move move);
    std::int64_t wait(std::span<CommandId const> fences);
    std::int64_t wait_for_any();
    std::vector<Completion> take_completions();

    bool ended(CommandId fence) const {
        std::lock_guard const lock(guard_);
        return lanes_.ended(fence);
    }
    std::int64_t under_way() const {
        std::lock_guard const lock(guard_);
        return lanes_.under_way();
    }
    Pool pool_of(BlockId block) const;
    bool has_completions() const noexcept {
        return ended_count_.load(std::memory_order_acquire) > 0;
    }
    Device& device() { return *device_; }
    Tier* tier(Pool pool) const;

  private:
    struct Room {
        Pool pool = Pool::host;
        Reservation bytes;
        std::int64_t moves = 0;  ///< given and not ended
    };
    struct Ended {
        Completion completion;
        std::shared_ptr<void const> hold;
    };
    using Lock = std::unique_lock<std::mutex>;

    void run_starter();
    void start_ready(std::size_t lane, Lock& lock);
    void start(Move& move, Lock& lock);
    void on_done(CommandId fence, Result<void> outcome);
    void on_device_ready(CommandId fence);
    void end(CommandId fence, Result<void> outcome, std::optional<Failure> failure);
    void wake_starter();
    template <typename Condition>
    std::int64_t wait_until(Lock& lock, Condition const& condition);

    std::shared_ptr<Device> const device_;  ///< the second owner is the driver
    std::unique_ptr<Tier> host_;
    std::unique_ptr<Tier> nvme_;

    mutable std::mutex guard_;          ///< of what follows; never held across a call of a tier
    std::condition_variable ended_cv_;  ///< a move ended, or the device called back
    std::condition_variable starter_cv_;
    Lanes lanes_;
    std::array<bool, Lanes::kCount> starting_{};  ///< a thread is at work on that lane
    std::unordered_map<BlockId, Room> rooms_;
    std::vector<Ended> ended_;
    std::atomic<std::int64_t> ended_count_{0};
    std::int64_t device_calls_ = 0;  ///< callbacks asked for that have not come
    bool starter_needed_ = false;
    bool stopping_ = false;
    std::thread starter_;  ///< last: it uses all of the above
};

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
        ended_cv_.wait(lock, [this] { return lanes_.under_way() == 0 && device_calls_ == 0; });
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

Pool Mover::Impl::pool_of(BlockId block) const {
    std::lock_guard const lock(guard_);
    auto const room = rooms_.find(block);
    SPILLWAY_ASSERT(room != rooms_.end(), "the block has a room");
    return room->second.pool;
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
std::int64_t Mover::Impl::wait_until(Lock& lock, Condition const& condition) {
    if (condition()) {
        return 0;
    }
    auto const began = std::chrono::steady_clock::now();
    ended_cv_.wait(lock, condition);
    return std::chrono::nanoseconds(std::chrono::steady_clock::now() - began).count();
}

std::int64_t Mover::Impl::wait(std::span<CommandId const> fences) {
    Lock lock(guard_);
    return wait_until(lock, [&] {
        return std::all_of(fences.begin(), fences.end(), [this](CommandId fence) {
            return lanes_.ended(fence);
        });
    });
}

std::int64_t Mover::Impl::wait_for_any() {
    Lock lock(guard_);
    return wait_until(lock, [this] { return !ended_.empty() || lanes_.under_way() == 0; });
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

Mover::Mover(std::shared_ptr<Device> device, std::unique_ptr<Tier> host, std::unique_ptr<Tier> nvme)
    : impl_(std::make_unique<Impl>(std::move(device), std::move(host), std::move(nvme))) {}

Mover::~Mover() = default;

Result<void> Mover::reserve(Pool pool, BlockId block, std::int64_t size_bytes) {
    return impl_->reserve(pool, block, size_bytes);
}

void Mover::release(BlockId block) noexcept {
    impl_->release(block);
}

Result<void*> Mover::reserve_device(std::int64_t size_bytes) {
    Device& device = impl_->device();
    if (void* const bytes = device.try_allocate(size_bytes)) {
        return bytes;
    }
    std::int64_t const limit = device.limit_bytes();
    std::int64_t const left = std::max<std::int64_t>(limit - device.usage().used_bytes, 0);
    return Error{
        Errc::out_of_memory,
        fmt::format(
            "{} were asked for, {} of {} are left",
            format_size(size_bytes),
            format_size(left),
            format_size(limit)
        ),
        "device"};
}

void Mover::release_device(void* bytes) noexcept {
    impl_->device().free(bytes);
}

void Mover::store(
    CommandId fence,
    BlockId block,
    std::span<std::byte const> from,
    std::shared_ptr<void const> hold,
    std::span<CommandId const> after
) {
    SPILLWAY_ASSERT(!from.empty(), "a block has at least one byte");
    Move move{.fence = fence, .block = block, .from = from, .hold = std::move(hold)};
    move.after.assign(after.begin(), after.end());
    impl_->give(std::move(move));
}

void Mover::load(
    CommandId fence,
    BlockId block,
    std::span<std::byte> to,
    std::shared_ptr<void const> hold,
    std::span<CommandId const> after
) {
    SPILLWAY_ASSERT(!to.empty(), "a block has at least one byte");
    Move move{.fence = fence, .block = block, .to = to, .hold = std::move(hold)};
    move.after.assign(after.begin(), after.end());
    impl_->give(std::move(move));
}

bool Mover::ended(CommandId fence) const {
    return impl_->ended(fence);
}
std::int64_t Mover::wait(std::span<CommandId const> fences) {
    return impl_->wait(fences);
}
std::int64_t Mover::wait_for_any() {
    return impl_->wait_for_any();
}
std::vector<Completion> Mover::take_completions() {
    return impl_->take_completions();
}
bool Mover::has_completions() const noexcept {
    return impl_->has_completions();
}
std::int64_t Mover::under_way() const {
    return impl_->under_way();
}
Device& Mover::device() {
    return impl_->device();
}
Tier* Mover::tier(Pool pool) {
    return impl_->tier(pool);
}
Pool Mover::pool_of(BlockId block) const {
    return impl_->pool_of(block);
}

TierCounters Mover::counters(Pool pool) const {
    Tier const* const place = impl_->tier(pool);
    return place == nullptr ? TierCounters{} : place->counters();
}

std::string Mover::tier_name(Pool pool) const {
    Tier const* const place = impl_->tier(pool);
    return place == nullptr ? std::string() : place->name();
}

}  // namespace spillway
