// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the tests of the late accelerator share.
#pragma once

#include "late/late.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace late {

/// Starts each case with everything new, and one thread for each CPU kernel.
class LateTest : public ::testing::Test {
  protected:
    LateTest() {
        install();
        at::set_num_threads(1);
        configure({});
    }
};

inline c10::Device device(int index = 0) {
    return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

inline at::TensorOptions on_late(int index = 0) {
    return at::TensorOptions().device(device(index));
}

inline at::Tensor pinned(std::int64_t elems, double value) {
    return at::full({elems}, value, at::TensorOptions().pinned_memory(true));
}

inline c10::impl::VirtualGuardImpl guard() {
    return c10::impl::VirtualGuardImpl(c10::kPrivateUse1);
}

inline c10::Stream main_stream(int index = 0) {
    return guard().getStream(device(index));
}

inline c10::Stream side_stream(int index = 0) {
    return guard().getStreamFromGlobalPool(device(index));
}

/// `later` waits for what is enqueued on `earlier` now.
inline void order(c10::Stream earlier, c10::Stream later) {
    c10::Event event(c10::kPrivateUse1);
    event.record(earlier);
    event.block(later);
}

inline std::string all_reports() {
    std::string text;
    for (Report const& report : reports()) {
        text += report.text() + "\n";
    }
    return text;
}

/// Of all devices.
inline std::int64_t used_bytes() {
    std::int64_t sum = 0;
    for (DeviceStats const& device : stats().devices) {
        sum += device.used_bytes;
    }
    return sum;
}

/// Until no byte of a device is used: the thread that ran a backward lets go of its last tensor
/// after it has told that it is done. Gives up after two minutes.
inline void wait_until_freed() {
    auto const until = std::chrono::steady_clock::now() + std::chrono::minutes(2);
    do {
        wait_idle();
    } while (used_bytes() > 0 && std::chrono::steady_clock::now() < until);
    wait_idle();
}

}  // namespace late
