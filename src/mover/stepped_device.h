// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// For tests: a device that the host does not reach, whose streams stand still until they are let go
// on. What is done on them is written down in order.
#pragma once

#include "memory/device.h"
#include "mover/device_coder.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

/// Streams: 0 compute, 1 copy out, 2 copy in, 3 encode, 4 decode. Events are numbered from 1; those
/// up to `passed_to` have passed, and the time between two of them, in microseconds, is the
/// difference of their numbers.
class SteppedDevice final : public Device, public DeviceCoder {
  public:
    std::int64_t passed_to = 0;
    std::vector<std::string> done;  ///< "record 1 on 2", "wait 1 on 2", "copy 8 on 1", ...
    bool refuses_copies = false;
    StreamId current{0};

    /// What was done since the last call, with "; " between.
    std::string take_done() {
        std::string all;
        for (std::string const& one : std::exchange(done, {})) {
            all += (all.empty() ? "" : "; ") + one;
        }
        return all;
    }

    [[nodiscard]] bool is_host() const override { return false; }
    [[nodiscard]] void* try_allocate(std::int64_t size_bytes, StreamId) noexcept override {
        blocks_.push_back(std::make_unique<std::byte[]>(static_cast<std::size_t>(size_bytes)));
        return blocks_.back().get();
    }
    void free(void*) noexcept override { ++freed; }
    int freed = 0;
    [[nodiscard]] std::int64_t rounded(std::int64_t size_bytes) const override {
        return size_bytes;
    }
    [[nodiscard]] bool owns(void const*) const noexcept override { return false; }
    [[nodiscard]] std::int64_t size_of(void const*) const override { return 0; }
    [[nodiscard]] DeviceUsage usage() const override { return {}; }
    [[nodiscard]] std::int64_t take_peak() override { return 0; }
    [[nodiscard]] std::int64_t limit_bytes() const override { return 0; }
    void charge(std::int64_t) override {}
    void bound(std::int64_t) override {}

    [[nodiscard]] StreamId current_stream() const override { return current; }
    [[nodiscard]] StreamId stream_of(void const*) const override { return {0}; }
    [[nodiscard]] StreamId copy_out_stream() const override { return {1}; }
    [[nodiscard]] StreamId copy_in_stream() const override { return {2}; }

    [[nodiscard]] StreamEventRef record(StreamId stream) override {
        note("record", ++events_, stream);
        return std::make_shared<Event>(events_);
    }
    void wait(StreamId stream, StreamEventRef const& event) override {
        note("wait", number_of(event), stream);
    }
    [[nodiscard]] bool passed(StreamEventRef const& event) override {
        return number_of(event) <= passed_to;
    }
    [[nodiscard]] std::int64_t elapsed_ns(StreamEventRef const& from, StreamEventRef const& to)
        const override {
        return 1000 * (number_of(to) - number_of(from));
    }
    [[nodiscard]] Result<void> copy(
        void* to, void const* from, std::int64_t size_bytes, StreamId stream
    ) override {
        if (refuses_copies) {
            return Error{Errc::io, "no copy today", "stepped"};
        }
        note("copy", size_bytes, stream);
        std::memcpy(to, from, static_cast<std::size_t>(size_bytes));
        return {};
    }

    [[nodiscard]] bool codes(Codec const&) const override { return true; }
    [[nodiscard]] StreamId encode_stream() const override { return {3}; }
    [[nodiscard]] StreamId decode_stream() const override { return {4}; }
    [[nodiscard]] Result<void> encode(
        Encoding const& encoding, void const*, void*, std::uint64_t, StreamId stream
    ) override {
        note("encode", encoding.count, stream);
        return {};
    }
    [[nodiscard]] Result<void> decode(Encoding const& encoding, void const*, void*, StreamId stream)
        override {
        note("decode", encoding.count, stream);
        return {};
    }

  private:
    struct Event final : StreamEvent {
        explicit Event(std::int64_t of) : number(of) {}
        std::int64_t number;
    };
    [[nodiscard]] static std::int64_t number_of(StreamEventRef const& event) {
        return event == nullptr ? 0 : static_cast<Event const&>(*event).number;
    }
    void note(char const* what, std::int64_t number, StreamId stream) {
        done.push_back(fmt::format("{} {} on {}", what, number, stream.number));
    }

    std::vector<std::unique_ptr<std::byte[]>> blocks_;
    std::int64_t events_ = 0;
};

}  // namespace spillway
