// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The mover where the host cannot reach the device's memory: copies on streams, ordered by events.
// Every wait here is a rule of its own (base/rules.h); peers.md calls them sharp edges 20 to 26.

#include "base/rules.h"
#include "mover/mover_impl.h"

#include <utility>

namespace spillway {

namespace {

/// Devices tell times between events as 32-bit floats of milliseconds: within this, to a
/// microsecond.
constexpr std::int64_t kLongestSinceBaseNs = 10'000'000'000;

}  // namespace

Route Mover::Impl::route_of(Move const& move, Room const& room) {
    if (device_->is_host() || (move.is_coded && move.is_transfer())) {
        return Route::in_place;
    }
    if (move.is_coded) {
        return Route::coded;
    }
    return tier(room.pool)->memory(room.bytes).empty() ? Route::staged : Route::copied;
}

/// How far the streams of its bytes are now: what the copy has to wait for.
void Mover::Impl::note_positions(Move& move) {
    if (move.route == Route::in_place) {
        return;
    }
    std::vector<StreamId>& streams = move.device.streams;
    if (streams.empty()) {
        streams.push_back(device_->current_stream());
    }
    Rule const first =
        move.is_store() ? Rule::store_waits_for_its_producer : Rule::load_waits_for_its_target;
    for (StreamId const stream : streams) {
        bool const is_first = stream == streams.front();
        if (keeps(is_first ? first : Rule::store_waits_for_every_user)) {
            move.ready.push_back(device_->record(stream));
        }
    }
    if (move.is_store() && !keeps(Rule::store_keeps_its_source)) {
        move.device.hold.reset();
    }
}

/// False: there is no room now.
bool Mover::Impl::take_staging(Move& move) {
    if (move.route != Route::staged) {
        return take_coded_staging(move);
    }
    std::int64_t const size_bytes = rooms_.at(move.block).bytes.size_bytes();
    std::optional<std::int64_t> const first = staging_.take(size_bytes);
    if (!first) {
        return false;
    }
    move.beside = options_.staging.bytes().subspan(
        static_cast<std::size_t>(*first), static_cast<std::size_t>(size_bytes)
    );
    return true;
}

void Mover::Impl::give_staging_back(Move& move) {
    if (move.route == Route::staged && !move.beside.empty()) {
        std::span<std::byte> const memory = std::exchange(move.beside, {});
        staging_.give_back(memory.data() - options_.staging.bytes().data(), std::ssize(memory));
    }
}

void Mover::Impl::enqueue_copy(Move& move) {
    bool const is_store = move.is_store();
    StreamId const stream = is_store ? device_->copy_out_stream() : device_->copy_in_stream();
    for (StreamEventRef const& position : move.ready) {
        device_->wait(stream, position);
    }
    for (CommandId const fence : move.after) {
        Move const* const store = lanes_.find(fence);
        if (store != nullptr && keeps(Rule::load_waits_for_its_store)) {
            device_->wait(stream, store->copied);
        }
    }
    if (move.route == Route::copied) {
        move.beside = tier(move.pool)->memory(rooms_.at(move.block).bytes);
    }
    std::span<std::byte> const bytes = move.device.bytes;
    SPILLWAY_ASSERT(bytes.size() <= move.beside.size(), "a room is as large as what is stored");
    move.begun = device_->record(stream);
    Result<void> const enqueued =
        is_store ? device_->copy(move.beside.data(), bytes.data(), std::ssize(bytes), stream)
                 : device_->copy(bytes.data(), move.beside.data(), std::ssize(bytes), stream);
    if (!enqueued.ok()) {
        fail(move.fence, enqueued.error());
        return;
    }
    move.copied = device_->record(stream);
    copies_[is_store ? kCopyOut : kCopyIn].push_back(move.fence);
    copies_on_streams_.fetch_add(1, std::memory_order_relaxed);
    if (move.route == Route::staged) {
        ++staged_copies_;
        starter_needed_ = true;
        starter_cv_.notify_one();
        if (!is_store && !keeps(Rule::staging_outlives_the_copy)) {
            give_staging_back(move);
        }
    }
}

/// Takes what passed on the streams further.
void Mover::Impl::advance(Lock& lock) {
    for (CommandId const fence : std::exchange(loaded_, {})) {
        enqueue_copy(*lanes_.find(fence));
    }
    pass_stalls();
    if (copies_on_streams_.load(std::memory_order_relaxed) > 0) {
        for (std::deque<CommandId>& copies : copies_) {
            pass_copies(copies, lock);
        }
    }
}

void Mover::Impl::pass_copies(std::deque<CommandId>& copies, Lock& lock) {
    while (!copies.empty()) {
        Move& move = *lanes_.find(copies.front());
        bool const is_staged_store = move.route == Route::staged && move.is_store();
        bool const is_encode = move.route == Route::coded && move.is_store();
        bool const early = (is_staged_store && !keeps(Rule::staging_is_read_after_the_copy)) ||
                           (is_encode && !keeps(Rule::coded_bytes_are_sealed_when_there));
        if (!early && !device_->passed(move.copied)) {
            return;
        }
        copies.pop_front();
        copies_on_streams_.fetch_sub(1, std::memory_order_relaxed);
        pass_copy(move, lock);
    }
}

void Mover::Impl::pass_copy(Move& move, Lock& lock) {
    if (!move.refusal) {
        count(move);
    }
    if (move.route != Route::copied) {
        --staged_copies_;
    }
    if (move.refusal) {
        fail(move.fence, Error(*move.refusal));
        return;
    }
    if (move.route == Route::coded && move.is_store()) {
        start_coding(move, lock);
        return;
    }
    if (move.route == Route::copied || !move.is_store()) {
        end(move.fence, {}, std::nullopt);
        return;
    }
    std::span<std::byte> const bytes = move.beside;
    if (!keeps(Rule::staging_outlives_the_store)) {
        give_staging_back(move);
    }
    call_tier(move.fence, bytes, lock);
}

void Mover::Impl::count(Move& move) {
    if (move.route == Route::coded) {
        count_coded(move);
        return;
    }
    if (options_.measure) {
        move.on_stream = {time_of(move.begun), time_of(move.copied)};
    }
    std::int64_t const size_bytes = std::ssize(move.device.bytes);
    std::int64_t const took_ns = device_->elapsed_ns(move.begun, move.copied);
    (move.is_store() ? streams_.out_bytes : streams_.in_bytes) += size_bytes;
    (move.is_store() ? streams_.out_ns : streams_.in_ns) += took_ns;
    if (move.route == Route::copied) {
        TierCounters& copied = copied_[static_cast<std::size_t>(move.pool)];
        (move.is_store() ? copied.stored_bytes : copied.loaded_bytes) += size_bytes;
        (move.is_store() ? copied.store_ns : copied.load_ns) += took_ns;
    }
}

void Mover::Impl::pass_stalls() {
    while (!stalls_.empty() && device_->passed(stalls_.front().after)) {
        Stall const& stall = stalls_.front();
        std::int64_t const took_ns = device_->elapsed_ns(stall.before, stall.after);
        (stall.way == Direction::store ? streams_.stall_store_ns : streams_.stall_load_ns) +=
            took_ns;
        if (options_.measure) {
            Interval const time{time_of(stall.before), time_of(stall.after)};
            stream_stalls_.push_back({stall.way == Direction::store, time});
        }
        stalls_.pop_front();
    }
}

/// When an event passed, on the steady clock: it has.
std::int64_t Mover::Impl::time_of(StreamEventRef const& event) {
    std::int64_t const since_ns = device_->elapsed_ns(base_, event);
    std::int64_t const at_ns = base_ns_ + since_ns;
    if (since_ns > kLongestSinceBaseNs) {
        base_ = event;
        base_ns_ = at_ns;
    }
    return at_ns;
}

bool Mover::Impl::streams_can_wait_for(Move const& move) {
    return move.is_on_a_stream() ||
           (move.copied != nullptr && !keeps(Rule::staged_drop_waits_for_the_tier));
}

/// After a store the block may be freed on its stream, and so its hold goes; what was loaded may be
/// read by the stream that asks, and freed on the target's.
void Mover::Impl::order_streams_after(
    Move& move, std::vector<std::shared_ptr<void const>>& released
) {
    StreamId const own = move.device.streams.front();
    if (!move.is_store() || keeps(Rule::drop_waits_for_the_store)) {
        order_after(own, move);
    }
    if (move.is_store()) {
        released.push_back(std::exchange(move.device.hold, nullptr));
        return;
    }
    StreamId const asking = device_->current_stream();
    if (asking != own && keeps(Rule::asking_stream_waits_too)) {
        order_after(asking, move);
    }
}

void Mover::Impl::order_after(StreamId stream, Move const& move) {
    if (device_->passed(move.copied)) {
        return;  // and the host, which knows it, enqueues what follows
    }
    StreamEventRef const before = device_->record(stream);
    device_->wait(stream, move.copied);
    stalls_.push_back({move.way, before, device_->record(stream)});
}

}  // namespace spillway
