// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/stream_copies.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/ordering_rules.h"

#include <optional>
#include <utility>

namespace spillway {

namespace {

/// What staging is cut into: a page, as direct I/O wants it.
constexpr std::int64_t kStagingUnitBytes = 4096;

/// Devices report the time between two events as a 32-bit float in milliseconds: up to this long it
/// is accurate to a microsecond.
constexpr std::int64_t kLongestSinceBaseNs = 10'000'000'000;

}  // namespace

StreamCopies::StreamCopies(Device& device, Lanes& lanes, std::span<std::byte> staging, bool measure)
    : device_(device),
      lanes_(lanes),
      memory_(staging),
      measure_(measure),
      staging_(std::ssize(staging), kStagingUnitBytes) {
    if (measure && !device.is_host()) {
        base_ = device.record(device.copy_out_stream());
        base_ns_ = steady_now_ns();
    }
}

void StreamCopies::note_positions(Move& move) {
    std::vector<StreamId>& streams = move.device.streams;
    if (streams.empty()) {
        streams.push_back(device_.current_stream());
    }
    OrderingRule const first = move.is_store() ? OrderingRule::store_waits_for_its_producer
                                               : OrderingRule::load_waits_for_its_target;
    for (StreamId const stream : streams) {
        bool const is_first = stream == streams.front();
        if (keeps(is_first ? first : OrderingRule::store_waits_for_every_user)) {
            move.ready.push_back(device_.record(stream));
        }
    }
    if (move.is_store() && !keeps(OrderingRule::store_keeps_its_source)) {
        move.device.hold.reset();
    }
}

bool StreamCopies::take_staging(Move& move, std::int64_t size_bytes) {
    std::optional<std::int64_t> const first = staging_.take(size_bytes);
    if (!first) {
        return false;
    }
    move.beside =
        memory_.subspan(static_cast<std::size_t>(*first), static_cast<std::size_t>(size_bytes));
    return true;
}

void StreamCopies::give_staging_back(Move& move) {
    if (move.route == Route::staged && !move.beside.empty()) {
        std::span<std::byte> const memory = std::exchange(move.beside, {});
        staging_.give_back(memory.data() - memory_.data(), std::ssize(memory));
    }
}

Result<void> StreamCopies::enqueue(Move& move) {
    bool const is_store = move.is_store();
    StreamId const stream = is_store ? device_.copy_out_stream() : device_.copy_in_stream();
    for (StreamEventRef const& position : move.ready) {
        device_.wait(stream, position);
    }
    for (CommandId const fence : move.after) {
        Move const* const store = lanes_.find(fence);
        if (store != nullptr && keeps(OrderingRule::load_waits_for_its_store)) {
            device_.wait(stream, store->copied);
        }
    }
    std::span<std::byte> const bytes = move.device.bytes;
    SPILLWAY_ASSERT(bytes.size() <= move.beside.size(), "a room is as large as what is stored");
    move.begun = device_.record(stream);
    Result<void> const enqueued =
        is_store ? device_.copy(move.beside.data(), bytes.data(), std::ssize(bytes), stream)
                 : device_.copy(bytes.data(), move.beside.data(), std::ssize(bytes), stream);
    if (!enqueued.ok()) {
        return enqueued;
    }
    move.copied = device_.record(stream);
    queues_[is_store ? kCopyOut : kCopyIn].push_back(move.fence);
    ++on_streams_;
    if (move.route == Route::staged) {
        ++staged_;
        if (!is_store && !keeps(OrderingRule::staging_outlives_the_copy)) {
            give_staging_back(move);
        }
    }
    return {};
}

void StreamCopies::add_coded(Move& move) {
    queues_[move.is_store() ? kCopyOut : kDecode].push_back(move.fence);
    ++on_streams_;
    ++staged_;
}

bool StreamCopies::has_passed(Move const& move) {
    bool const is_staged_store = move.route == Route::staged && move.is_store();
    bool const is_encode = move.route == Route::coded && move.is_store();
    bool const early = (is_staged_store && !keeps(OrderingRule::staging_is_read_after_the_copy)) ||
                       (is_encode && !keeps(OrderingRule::coded_bytes_are_sealed_when_there));
    return early || device_.passed(move.copied);
}

Move* StreamCopies::take_passed(std::size_t queue) {
    std::deque<CommandId>& copies = queues_[queue];
    if (copies.empty()) {
        return nullptr;
    }
    Move* const move = lanes_.find(copies.front());
    if (!has_passed(*move)) {
        return nullptr;
    }
    copies.pop_front();
    --on_streams_;
    staged_ -= move->route == Route::copied ? 0 : 1;
    return move;
}

void StreamCopies::count(Move& move) {
    if (measure_) {
        move.on_stream = {time_of(move.begun), time_of(move.copied)};
    }
    std::int64_t const size_bytes = std::ssize(move.device.bytes);
    std::int64_t const took_ns = device_.elapsed_ns(move.begun, move.copied);
    (move.is_store() ? counters_.out_bytes : counters_.in_bytes) += size_bytes;
    (move.is_store() ? counters_.out_ns : counters_.in_ns) += took_ns;
    if (move.route == Route::copied) {
        TierCounters& copied = copied_[static_cast<std::size_t>(move.pool)];
        (move.is_store() ? copied.stored_bytes : copied.loaded_bytes) += size_bytes;
        (move.is_store() ? copied.store_ns : copied.load_ns) += took_ns;
    }
}

std::int64_t StreamCopies::count_coded(Move& move, std::int64_t coded_bytes) {
    bool const is_store = move.is_store();
    struct Half {
        StreamEventRef const& begun;
        StreamEventRef const& ended;
    };
    Half const first{move.begun, move.half_ended};
    Half const second{move.half_begun, move.copied};
    Half const& copy = is_store ? second : first;
    Half const& work = is_store ? first : second;
    if (measure_) {
        move.on_stream = {time_of(copy.begun), time_of(copy.ended)};
        move.on_codec = {time_of(work.begun), time_of(work.ended)};
    }
    (is_store ? counters_.out_bytes : counters_.in_bytes) += coded_bytes;
    (is_store ? counters_.out_ns : counters_.in_ns) += device_.elapsed_ns(copy.begun, copy.ended);
    return device_.elapsed_ns(work.begun, work.ended);
}

void StreamCopies::pass_stalls() {
    while (!stalls_.empty() && device_.passed(stalls_.front().after)) {
        Stall const& stall = stalls_.front();
        bool const for_store = stall.way == Direction::store;
        std::int64_t const waited_ns = device_.elapsed_ns(stall.before, stall.after);
        (for_store ? counters_.stall_store_ns : counters_.stall_load_ns) += waited_ns;
        if (measure_ || keeps_stalls_) {
            Interval const time =
                measure_ ? Interval{time_of(stall.before), time_of(stall.after)} : Interval{};
            ended_stalls_.push_back({stall.command, for_store, waited_ns, time});
        }
        stalls_.pop_front();
    }
}

std::vector<StreamStall> StreamCopies::take_stalls() {
    return std::exchange(ended_stalls_, {});
}

/// When an event passed, on the steady clock: it has.
std::int64_t StreamCopies::time_of(StreamEventRef const& event) {
    std::int64_t const since_ns = device_.elapsed_ns(base_, event);
    std::int64_t const at_ns = base_ns_ + since_ns;
    if (since_ns > kLongestSinceBaseNs) {
        base_ = event;
        base_ns_ = at_ns;
    }
    return at_ns;
}

bool StreamCopies::streams_can_wait_for(Move const& move) {
    return move.is_on_a_stream() ||
           (move.copied != nullptr && !keeps(OrderingRule::staged_drop_waits_for_the_tier));
}

/// After a store the block may be freed on its stream, and so its hold goes; what was loaded may be
/// read by the stream that asks, and freed on the target's.
void StreamCopies::order_streams_after(
    Move& move, std::vector<std::shared_ptr<void const>>& released
) {
    StreamId const own = move.device.streams.front();
    if (!move.is_store() || keeps(OrderingRule::drop_waits_for_the_store)) {
        order_after(own, move);
    }
    if (move.is_store()) {
        released.push_back(std::exchange(move.device.hold, nullptr));
        return;
    }
    StreamId const asking = device_.current_stream();
    if (asking != own && keeps(OrderingRule::asking_stream_waits_too)) {
        order_after(asking, move);
    }
}

void StreamCopies::order_after(StreamId stream, Move const& move) {
    if (device_.passed(move.copied)) {
        return;  // and the host, which knows it, enqueues what follows
    }
    StreamEventRef const before = device_.record(stream);
    device_.wait(stream, move.copied);
    stalls_.push_back({move.fence, move.way, before, device_.record(stream)});
}

}  // namespace spillway
