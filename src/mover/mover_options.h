// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How a mover is set up.
#pragma once

#include "memory/host_memory.h"
#include "mover/device_coder.h"

#include <chrono>
#include <memory>

namespace spillway {

inline constexpr std::chrono::milliseconds kPatience{30'000};

struct MoverOptions {
    /// A longer wait is logged, with who waits for what, and continues.
    std::chrono::milliseconds patience = kPatience;
    /// Memory that the device copies to and from, for tiers without memory of their own. What is
    /// longer cannot go there.
    HostMemory staging = {};
    /// Memory for coded bytes between codec and tier: half for blocks that leave, half for those
    /// that return. Empty: nothing can be encoded. Where the host does not reach the device the
    /// mover takes as much of that.
    HostMemory coded = {};
    /// Encodes and decodes where the host does not reach the device; null: nothing does there.
    std::shared_ptr<DeviceCoder> coder = nullptr;
    /// The share of the cores that encode and decode; 0: whoever starts a command does.
    int codec_threads = 1;
    /// Completions carry start and end times, and stalls of streams are recorded. Costs two clock
    /// reads per move.
    bool measure = false;
    /// False: what waits is started by whoever calls. For tests that must be repeatable.
    bool own_thread = true;
};

}  // namespace spillway
