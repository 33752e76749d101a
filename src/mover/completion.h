// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the mover reports: commands that ended, and what copies did on the device's streams.
#pragma once

#include "base/clock.h"
#include "base/ids.h"
#include "base/result.h"

#include <cstdint>

namespace spillway {

/// A store, load, encode or decode that has ended, well or not.
struct Completion {
    CommandId command;
    Result<void> outcome;
    Interval on_codec = {};   ///< it was encoded or decoded; measured as `on_tier`
    Interval on_tier = {};    ///< the tier had it; measured where MoverOptions::measure asks
    Interval on_stream = {};  ///< its copy was on the device's stream, by the device's clock
};

/// Streams of compute stood still for a copy.
struct StreamStall {
    CommandId command{};  ///< whose copy it was
    bool for_store = false;
    std::int64_t waited_ns = 0;
    Interval time = {};  ///< where MoverOptions::measure asks
};

/// What the copies did that have passed on the device's streams; zeros where there are no streams.
struct StreamCounters {
    std::int64_t out_bytes = 0;  ///< from the device
    std::int64_t out_ns = 0;     ///< that the copies took
    std::int64_t in_bytes = 0;
    std::int64_t in_ns = 0;
    std::int64_t stall_store_ns = 0;  ///< streams of compute stood still for copies out
    std::int64_t stall_load_ns = 0;   ///< and for copies in
};

}  // namespace spillway
