// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Encodes and decodes by a device whose memory the host does not reach: kernels on side streams of
// its own, between the device's memory and the same place of coded staging, and one copy on a
// stream between both. The host writes and checks the headers.

#include "base/assert.h"
#include "base/rules.h"
#include "codec/block.h"
#include "mover/mover_impl.h"

#include <utility>

namespace spillway {

/// As much as coded staging; null where it is not to be used, or there is none. Another stream than
/// the one that it is allocated on waits for that once.
void* Mover::Impl::memory_for_coding() {
    SPILLWAY_ASSERT(device_ != nullptr, "a mover has a device");
    if (options_.coder == nullptr || options_.coded.bytes().empty()) {
        return nullptr;
    }
    StreamId const own = options_.coder->encode_stream();
    void* const memory = device_->try_allocate(std::ssize(options_.coded.bytes()), own);
    if (memory != nullptr) {
        StreamEventRef const there = device_->record(own);
        device_->wait(device_->copy_in_stream(), there);
        device_->wait(options_.coder->decode_stream(), there);
    }
    return memory;
}

std::int64_t Mover::Impl::most_coded_bytes() const {
    std::int64_t const most = coded_staging_.most_bytes();
    if (device_->is_host()) {
        return most;
    }
    return coded_staging_.device_memory() == nullptr
               ? 0
               : std::max<std::int64_t>(most - kMostSampledBytes, 0);
}

void Mover::Impl::enqueue_encode(Move& move) {
    Coded const& coded = *rooms_.at(move.block).coded;
    StreamId const stream = options_.coder->encode_stream();
    for (StreamEventRef const& position : move.ready) {
        device_->wait(stream, position);
    }
    SPILLWAY_ASSERT(
        coded.code.encoding.raw_bytes() <= std::ssize(move.device.bytes),
        "an encoding is of its value's bytes"
    );
    move.begun = device_->record(stream);
    Result<void> enqueued = options_.coder->encode(
        coded.code.encoding,
        move.device.bytes.data(),
        coded_staging_.on_device(coded.beside),
        coded.code.seed,
        stream
    );
    move.half_ended = device_->record(stream);
    StreamId const copy_out = device_->copy_out_stream();
    if (keeps(Rule::coded_copy_waits_for_its_encode)) {
        device_->wait(copy_out, move.half_ended);
    }
    move.half_begun = device_->record(copy_out);
    if (enqueued.ok()) {
        enqueued = enqueue_coded_copy_out(move, coded.code.encoding);
    }
    is_on_its_way(move, copy_out, enqueued);
}

/// The coded bytes, and behind them some of the raw ones.
Result<void> Mover::Impl::enqueue_coded_copy_out(Move& move, Encoding const& encoding) {
    std::span<std::byte> const to = rooms_.at(move.block).coded->beside;
    StreamId const stream = device_->copy_out_stream();
    std::int64_t const size_bytes = *encoded_bytes(encoding);
    Result<void> enqueued =
        device_->copy(to.data(), coded_staging_.on_device(to), size_bytes, stream);
    std::byte* sample = to.data() + size_bytes;
    Windows const windows(encoding, kSampledWindows);
    for (std::int64_t i = 0; enqueued.ok() && i < windows.size(); ++i) {
        std::int64_t const first = windows[i].first * size_of(encoding.dtype);
        std::int64_t const bytes = windows[i].count * size_of(encoding.dtype);
        enqueued = device_->copy(sample, move.device.bytes.data() + first, bytes, stream);
        sample += bytes;
    }
    return enqueued;
}

/// What is enqueued, up to the last of it on `stream`, is looked for from now on. A refusal of the
/// device's is never one of a codec's.
void Mover::Impl::is_on_its_way(Move& move, StreamId stream, Result<void> const& enqueued) {
    if (!enqueued.ok()) {
        move.refusal = enqueued.error();
        move.refusal->code = Errc::io;
    }
    move.copied = device_->record(stream);
    copies_[move.is_store() ? kCopyOut : kDecode].push_back(move.fence);
    copies_on_streams_.fetch_add(1, std::memory_order_relaxed);
    ++staged_copies_;
    starter_needed_ = true;
    starter_cv_.notify_one();
    ended_cv_.notify_all();
}

/// Of an encode whose copy-out has passed.
Result<void> Mover::Impl::seal_now(Move& move, Lock& lock) {
    Coded& coded = *rooms_.at(move.block).coded;
    BlockCode const code = coded.code;
    auto const size = static_cast<std::size_t>(*encoded_bytes(code.encoding));
    std::span<std::byte> const block = coded.beside.first(size);
    std::span<std::byte const> const samples = coded.beside.subspan(size);
    lock.unlock();
    Result<void> const sealed = seal_block(code.encoding, block);
    SquareSums sums;
    if (sealed.ok()) {
        sums = sample_error(
            code.encoding, Windows(code.encoding, kSampledWindows), samples, code.seed
        );
    }
    lock.lock();
    if (!sealed.ok()) {
        ++tally_.of(code).went_raw;
        return sealed.error();
    }
    coded.size_bytes = std::ssize(block);
    tally_.of(code).encode_ns += device_->elapsed_ns(move.begun, move.half_ended);
    count_encoded(code, coded.size_bytes, sums);
    return {};
}

/// Of what a load brought, before it goes to the device.
Result<void> Mover::Impl::check_now(Move& move, Lock& lock) {
    std::span<std::byte const> const block = brought_for(move);
    Encoding const encoding = rooms_.at(move.block).coded->code.encoding;
    lock.unlock();
    Result<void> const checked = check_block(encoding, block);
    lock.lock();
    if (!checked.ok()) {
        return undecodable(move, checked.error());
    }
    return {};
}

void Mover::Impl::enqueue_decode(Move& move) {
    std::span<std::byte> const from = brought_for(move);
    Encoding const encoding = rooms_.at(move.block).coded->code.encoding;
    SPILLWAY_ASSERT(
        encoding.raw_bytes() <= std::ssize(move.device.bytes), "a value comes back to its own size"
    );
    std::byte* const there = coded_staging_.on_device(from);
    StreamId const copy_in = device_->copy_in_stream();
    StreamId const stream = options_.coder->decode_stream();
    move.begun = device_->record(copy_in);
    Result<void> enqueued = device_->copy(there, from.data(), std::ssize(from), copy_in);
    move.half_ended = device_->record(copy_in);
    for (StreamEventRef const& position : move.ready) {
        device_->wait(stream, position);
    }
    if (keeps(Rule::decode_waits_for_its_copy)) {
        device_->wait(stream, move.half_ended);
    }
    move.half_begun = device_->record(stream);
    if (enqueued.ok()) {
        enqueued = options_.coder->decode(encoding, there, move.device.bytes.data(), stream);
    }
    is_on_its_way(move, stream, enqueued);
    if (!keeps(Rule::coded_room_outlives_the_decode)) {
        give_coded_staging_back(move, true);
    }
}

/// Of one that has passed.
void Mover::Impl::count_coded(Move& move) {
    bool const is_store = move.is_store();
    BlockCode const& code = rooms_.at(move.block).coded->code;
    struct Half {
        StreamEventRef const& begun;
        StreamEventRef const& ended;
    };
    Half const first{move.begun, move.half_ended};
    Half const second{move.half_begun, move.copied};
    Half const& copy = is_store ? second : first;
    Half const& work = is_store ? first : second;
    if (options_.measure) {
        move.on_stream = {time_of(copy.begun), time_of(copy.ended)};
        move.on_codec = {time_of(work.begun), time_of(work.ended)};
    }
    (is_store ? streams_.out_bytes : streams_.in_bytes) += *encoded_bytes(code.encoding);
    (is_store ? streams_.out_ns : streams_.in_ns) += device_->elapsed_ns(copy.begun, copy.ended);
    if (!is_store) {
        CodingCounters& counters = tally_.of(code);
        counters.decoded_bytes += code.encoding.raw_bytes();
        counters.decode_ns += device_->elapsed_ns(work.begun, work.ended);
    }
}

}  // namespace spillway
