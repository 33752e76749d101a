// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/device_coding.h"

#include "base/assert.h"
#include "base/ordering_rules.h"

namespace spillway {

// Another stream than the one that the memory is allocated on waits for that once.
DeviceCoding::DeviceCoding(Device& device, DeviceCoder* coder, std::span<std::byte const> staging)
    : device_(device), coder_(coder), staging_(staging) {
    if (coder == nullptr || staging.empty()) {
        return;
    }
    StreamId const own = coder->encode_stream();
    memory_ = static_cast<std::byte*>(device.try_allocate(std::ssize(staging), own));
    if (memory_ != nullptr) {
        StreamEventRef const there = device.record(own);
        device.wait(device.copy_in_stream(), there);
        device.wait(coder->decode_stream(), there);
    }
}

DeviceCoding::~DeviceCoding() {
    if (memory_ != nullptr) {
        device_.free(memory_);
    }
}

void DeviceCoding::encode(Move& move, BlockCode const& code, std::span<std::byte> to) {
    StreamId const stream = coder_->encode_stream();
    for (StreamEventRef const& position : move.ready) {
        device_.wait(stream, position);
    }
    bool const fits = code.encoding.raw_bytes() <= std::ssize(move.device.bytes);
    SPILLWAY_ASSERT(fits, "an encoding is of its value's bytes");
    move.begun = device_.record(stream);
    Result<void> enqueued =
        coder_->encode(code.encoding, move.device.bytes.data(), on_device(to), code.seed, stream);
    move.half_ended = device_.record(stream);
    StreamId const copies = device_.copy_out_stream();
    if (keeps(OrderingRule::coded_copy_waits_for_its_encode)) {
        device_.wait(copies, move.half_ended);
    }
    move.half_begun = device_.record(copies);
    if (enqueued.ok()) {
        enqueued = copy_out(move, code.encoding, to);
    }
    finish(move, copies, enqueued);
}

/// The coded bytes, and behind them some of the raw ones.
Result<void> DeviceCoding::copy_out(
    Move const& move, Encoding const& encoding, std::span<std::byte> to
) {
    StreamId const stream = device_.copy_out_stream();
    std::int64_t const size_bytes = *encoded_bytes(encoding);
    Result<void> enqueued = device_.copy(to.data(), on_device(to), size_bytes, stream);
    std::byte* sample = to.data() + size_bytes;
    Windows const windows(encoding, kSampledWindows);
    for (std::int64_t i = 0; enqueued.ok() && i < windows.size(); ++i) {
        std::int64_t const first = windows[i].first * size_of(encoding.dtype);
        std::int64_t const bytes = windows[i].count * size_of(encoding.dtype);
        enqueued = device_.copy(sample, move.device.bytes.data() + first, bytes, stream);
        sample += bytes;
    }
    return enqueued;
}

void DeviceCoding::decode(Move& move, Encoding const& encoding, std::span<std::byte const> from) {
    bool const fits = encoding.raw_bytes() <= std::ssize(move.device.bytes);
    SPILLWAY_ASSERT(fits, "a value comes back to its own size");
    std::byte* const there = on_device(from);
    StreamId const copies = device_.copy_in_stream();
    StreamId const stream = coder_->decode_stream();
    move.begun = device_.record(copies);
    Result<void> enqueued = device_.copy(there, from.data(), std::ssize(from), copies);
    move.half_ended = device_.record(copies);
    for (StreamEventRef const& position : move.ready) {
        device_.wait(stream, position);
    }
    if (keeps(OrderingRule::decode_waits_for_its_copy)) {
        device_.wait(stream, move.half_ended);
    }
    move.half_begun = device_.record(stream);
    if (enqueued.ok()) {
        enqueued = coder_->decode(encoding, there, move.device.bytes.data(), stream);
    }
    finish(move, stream, enqueued);
}

/// The last of what is enqueued is on `stream`. A refusal of the device's is never one of a
/// codec's.
void DeviceCoding::finish(Move& move, StreamId stream, Result<void> const& enqueued) {
    if (!enqueued.ok()) {
        move.refusal = enqueued.error();
        move.refusal->code = Errc::io;
    }
    move.copied = device_.record(stream);
}

}  // namespace spillway
