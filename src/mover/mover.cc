// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/mover.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/ordering_rules.h"
#include "base/units.h"
#include "tier/transfer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace spillway {

namespace {

/// How often a thread looks whether a copy has passed: a choice, short beside a transfer to a disk.
constexpr std::chrono::microseconds kLookEvery{100};

Device& existing(std::shared_ptr<Device> const& device) {
    SPILLWAY_ASSERT(device != nullptr, "a mover has a device");
    return *device;
}

Error refused(Device const& device, std::int64_t size_bytes) {
    std::int64_t const limit = device.limit_bytes();
    std::int64_t const left = std::max<std::int64_t>(limit - device.usage().used_bytes, 0);
    return {
        Errc::out_of_memory,
        fmt::format(
            "{} were asked for, {} of {} are left",
            format_size(size_bytes),
            format_size(left),
            format_size(limit)
        ),
        "device"};
}

struct What {
    CommandId fence;
    BlockId block;
    Direction way;
    SideWork work;
};

Move move_of(What const& what, HeldBytes device, std::span<CommandId const> after) {
    return {
        .fence = what.fence,
        .block = what.block,
        .way = what.way,
        .work = what.work,
        .device = std::move(device),
        .after = {after.begin(), after.end()}};
}

}  // namespace

Mover::Mover(
    std::shared_ptr<Device> device,
    std::unique_ptr<Tier> host,
    std::unique_ptr<Tier> nvme,
    MoverOptions options
)
    : options_(std::move(options)),
      device_(std::move(device)),
      host_(std::move(host)),
      nvme_(std::move(nvme)),
      moves_(existing(device_), options_),
      most_coded_bytes_(moves_.most_coded_bytes()) {
    if (options_.own_thread) {
        start_threads();
    }
}

void Mover::start_threads() {
    starter_ = std::thread([this] { run_starter(); });
    auto const enter = [device = device_.get()] {
        enter_io_thread("spillway-codec");
        device->enter_thread();
    };
    host_coding_.start(
        most_coded_bytes_ > 0 ? options_.codec_threads : 0,
        enter,
        [this](CodingJob const& job, CodingResult const& result) { coded(job, result); }
    );
}

static_assert(alignof(Mover) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__, "it is deleted as it was made");

void Mover::operator delete(Mover* mover, std::destroying_delete_t) {
    if (mover->owner_ == ::getpid()) {  // else the threads are the parent's
        mover->~Mover();
        ::operator delete(mover);
    }
}

Mover::~Mover() {
    std::vector<Move> dropped;
    {
        MutexLock const lock(mutex_);
        stopping_ = true;
        dropped = moves_.drop_waiting();
        starter_wakes_.notify_all();
    }
    dropped.clear();
    if (starter_.joinable()) {
        starter_.join();
    }
    if (keeps(OrderingRule::closing_waits_for_copies)) {
        MutexLock const lock(mutex_);
        wait_until("a session that closes", [this]() SPILLWAY_REQUIRES(mutex_) {
            return moves_.under_way() == 0;
        });
    }
    host_coding_.stop();
    moves_.drop_rooms();  // before the tiers; and those before what their threads may still touch
    host_.reset();
    nvme_.reset();
}

Tier* Mover::tier(Pool pool) const {
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

TierCounters Mover::counters(Pool pool) const {
    Tier const* const place = tier(pool);
    TierCounters counters = place == nullptr ? TierCounters{} : place->counters();
    MutexLock const lock(mutex_);
    TierCounters const& copied = moves_.copies().copied(pool);
    counters.stored_bytes += copied.stored_bytes;
    counters.loaded_bytes += copied.loaded_bytes;
    counters.store_ns += copied.store_ns;
    counters.load_ns += copied.load_ns;
    return counters;
}

Result<void> Mover::reserve(Pool pool, BlockId block, std::int64_t size_bytes) {
    Tier* const place = tier(pool);
    if (place == nullptr) {
        return Error{Errc::tier_full, "there is no such pool", std::string(name_of(pool))};
    }
    Result<Reservation> bytes = place->reserve(size_bytes);
    if (!bytes.ok()) {
        return bytes.error();
    }
    MutexLock const lock(mutex_);
    moves_.add_room(block, pool, *place, std::move(*bytes));
    return {};
}

void Mover::release(BlockId block) noexcept {
    Reservation bytes;  // handed back after the lock: the tier may hold a lock of its own
    MutexLock const lock(mutex_);
    bytes = moves_.take_room(block);
}

Result<void*> Mover::reserve_device(std::int64_t size_bytes, StreamId stream) {
    if (void* const bytes = device_->try_allocate(size_bytes, stream)) {
        return bytes;
    }
    return refused(*device_, size_bytes);
}

void Mover::release_device(void* bytes) noexcept {
    device_->free(bytes);
}

void Mover::store(
    CommandId fence, BlockId block, HeldBytes from, std::span<CommandId const> after
) {
    give(move_of({fence, block, Direction::store, SideWork::none}, std::move(from), after));
}

void Mover::load(CommandId fence, BlockId block, HeldBytes to, std::span<CommandId const> after) {
    give(move_of({fence, block, Direction::load, SideWork::none}, std::move(to), after));
}

void Mover::encode(
    CommandId fence,
    BlockId block,
    HeldBytes from,
    BlockCode const& code,
    std::span<CommandId const> after
) {
    SPILLWAY_ASSERT(codes(code.encoding.codec), "a device takes the codec that it is asked for");
    {
        MutexLock const lock(mutex_);
        moves_.set_code(block, code);
    }
    give(move_of({fence, block, Direction::store, SideWork::encode}, std::move(from), after));
}

void Mover::decode(CommandId fence, BlockId block, HeldBytes to, std::span<CommandId const> after) {
    give(move_of({fence, block, Direction::load, SideWork::decode}, std::move(to), after));
}

void Mover::give(Move move) {
    MutexLock const lock(mutex_);
    start_ready(moves_.give(std::move(move)));
}

// Starts what can start on `lane`, in order. One thread at a time: whoever comes second leaves it
// to the first, which looks again after each start.
void Mover::start_ready(std::size_t lane) {
    if (starting_[lane]) {
        return;
    }
    starting_[lane] = true;
    while (!stopping_) {
        std::optional<Outside> const work = moves_.start_next(lane);
        if (!work) {
            break;
        }
        carry_out(*work);
    }
    starting_[lane] = false;
}

void Mover::carry_out(Outside const& work) {
    pass_news_on();
    auto const* const job = std::get_if<CodingJob>(&work);
    if (job != nullptr && host_coding_.has_threads()) {
        host_coding_.push(*job);
    } else if (job != nullptr) {
        MutexUnlock const unlocked(mutex_);
        coded(*job, run(*job));
    } else if (auto const* const call = std::get_if<TierCall>(&work)) {
        MutexUnlock const unlocked(mutex_);
        call_tier(*call);
    }
}

void Mover::call_tier(TierCall const& call) {
    auto done = [this, fence = call.fence](Result<void> outcome) {
        MutexLock const lock(mutex_);
        moves_.tier_ended(fence, std::move(outcome));
        pass_news_on();
    };
    if (call.is_store) {
        call.tier->store(*call.room, call.bytes, std::move(done));
    } else {
        call.tier->load(*call.room, call.bytes, std::move(done));
    }
}

void Mover::coded(CodingJob const& job, CodingResult const& result) {
    MutexLock const lock(mutex_);
    moves_.coded(job, result);
    pass_news_on();
}

/// Wakes the starter only where there is something to start that no thread will see anyhow.
void Mover::pass_news_on() {
    Moves::News const news = moves_.take_news();
    copies_on_streams_.store(moves_.copies().on_streams(), std::memory_order_relaxed);
    if (news.ended) {
        ended_count_.store(moves_.ended_count(), std::memory_order_release);
        ended_.notify_all();
    }
    if (news.started || (news.ended && any_ready())) {
        starter_needed_ = true;
        starter_wakes_.notify_one();
    }
}

bool Mover::any_ready() {
    for (std::size_t lane = 0; lane < Lanes::kCount; ++lane) {
        if (!starting_[lane] && moves_.has_ready(lane)) {
            return true;
        }
    }
    return false;
}

void Mover::run_starter() {
    enter_io_thread("spillway-mover");
    device_->enter_thread();
    MutexLock const lock(mutex_);
    auto const due = [this]() SPILLWAY_REQUIRES(mutex_) { return starter_needed_ || stopping_; };
    while (true) {
        if (moves_.copies().staged() > 0) {
            starter_wakes_.wait_for(mutex_, kLookEvery, due);
        } else {
            starter_wakes_.wait(mutex_, due);
        }
        if (stopping_) {
            return;
        }
        starter_needed_ = false;
        start_all();
    }
}

void Mover::start_all() {
    moves_.begin_advance();
    pass_news_on();
    for (std::size_t queue = 0; queue < StreamCopies::kQueues; ++queue) {
        while (std::optional<Outside> const work = moves_.advance(queue)) {
            carry_out(*work);
        }
    }
    for (std::size_t lane = 0; lane < Lanes::kCount; ++lane) {
        start_ready(lane);
    }
}

/// Nobody is notified when a copy has passed, so this polls where there are copies. A wait past its
/// limit logs who waits, and for what.
std::int64_t Mover::wait_until(char const* who, std::function<bool()> const& condition) {
    if (condition()) {
        return 0;
    }
    auto const began = std::chrono::steady_clock::now();
    auto const waited = [&] { return std::chrono::steady_clock::now() - began; };
    auto patience = std::chrono::nanoseconds(options_.patience);
    while (!condition()) {
        if (device_->is_host()) {
            ended_.wait_for(mutex_, options_.patience, condition);
        } else {
            start_all();
            auto const pause = options_.own_thread ? kLookEvery : std::chrono::microseconds(0);
            ended_.wait_for(mutex_, pause, condition);
        }
        if (waited() >= patience) {
            if (std::string const oldest = moves_.describe_oldest(); !oldest.empty()) {
                log_line(fmt::format(
                    "{} has waited {} s for {}", who, waited() / std::chrono::seconds(1), oldest
                ));
            }
            patience += options_.patience;
        }
    }
    return std::chrono::nanoseconds(waited()).count();
}

std::int64_t Mover::wait(std::span<CommandId const> fences) {
    std::vector<std::shared_ptr<void const>> released;  // goes after the lock
    MutexLock const lock(mutex_);
    std::int64_t const waited_ns =
        wait_until("compute", [this, &fences]() SPILLWAY_REQUIRES(mutex_) {
            return std::all_of(
                fences.begin(),
                fences.end(),
                [this](CommandId fence)
                    SPILLWAY_REQUIRES(mutex_) { return moves_.is_settled(fence); }
            );
        });
    for (CommandId const fence : fences) {
        moves_.order_streams_after(fence, released);
    }
    return waited_ns;
}

std::int64_t Mover::wait_for_any() {
    MutexLock const lock(mutex_);
    return wait_until("a session that closes", [this]() SPILLWAY_REQUIRES(mutex_) {
        return moves_.ended_count() > 0 || moves_.under_way() == 0;
    });
}

void Mover::end_limits() noexcept {
    for (Tier* const tier : {host_.get(), nvme_.get()}) {
        if (tier != nullptr) {
            tier->end_limits();
        }
    }
}

bool Mover::has_completions() {
    if (copies_on_streams_.load(std::memory_order_relaxed) > 0 || !options_.own_thread) {
        MutexLock const lock(mutex_);
        start_all();
    }
    return ended_count_.load(std::memory_order_acquire) > 0;
}

std::vector<Completion> Mover::take_completions() {
    std::vector<Moves::Ended> taken;
    {
        MutexLock const lock(mutex_);
        taken = moves_.take_ended();
        ended_count_.store(0, std::memory_order_release);
    }
    std::vector<Completion> completions;
    completions.reserve(taken.size());
    for (Moves::Ended& ended : taken) {
        completions.push_back(std::move(ended.completion));
    }
    return completions;  // the holds go with `taken`, outside the lock
}

std::vector<StreamStall> Mover::take_stream_stalls() {
    MutexLock const lock(mutex_);
    return moves_.take_stalls();
}

void Mover::keep_stream_stalls(bool keep) {
    MutexLock const lock(mutex_);
    moves_.keep_stalls(keep);
}

bool Mover::ended(CommandId fence) const {
    MutexLock const lock(mutex_);
    return moves_.has_ended(fence);
}

std::int64_t Mover::under_way() const {
    MutexLock const lock(mutex_);
    return moves_.under_way();
}

StreamCounters Mover::stream_counters() const {
    MutexLock const lock(mutex_);
    return moves_.copies().counters();
}

bool Mover::codes(Codec const& codec) const {
    return device_->is_host() || (options_.coder != nullptr && options_.coder->codes(codec));
}

std::vector<CodingCounters> Mover::coding_counters() const {
    MutexLock const lock(mutex_);
    return moves_.coded_blocks().counters();
}

Pool Mover::pool_of(BlockId block) const {
    MutexLock const lock(mutex_);
    return moves_.pool_of(block);
}

bool Mover::is_coded(BlockId block) const {
    MutexLock const lock(mutex_);
    return moves_.is_coded(block);
}

}  // namespace spillway
