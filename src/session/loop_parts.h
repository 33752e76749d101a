// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// For tests of the loop's parts: one of each over real memory, without a loop.
#pragma once

#include "session/command_runner.h"
#include "session/loop_rig.h"

#include <array>
#include <memory>
#include <utility>
#include <vector>

namespace spillway {

struct Parts {
    explicit Parts(NonFinite non_finite = NonFinite::keep, std::vector<Fault> faults = {})
        : mover(over(device, std::move(faults))), encodings(*device, *mover, non_finite, 1) {}

    static std::unique_ptr<Mover> over(
        std::shared_ptr<CpuDevice> const& device, std::vector<Fault> faults
    ) {
        auto tier =
            std::make_unique<FaultyTier>(std::make_unique<MemoryTier>(64_MiB), std::move(faults));
        MoverOptions options{.coded = map_host_memory(4_MiB).value()};
        return std::make_unique<Mover>(device, nullptr, std::move(tier), std::move(options));
    }

    /// A block of the device that stands for a value.
    ValueId put(std::int64_t number, std::int64_t size_bytes) {
        ValueId const value{number};
        driver.put(value, device->try_allocate(size_bytes, {0}));
        return value;
    }
    /// What ended, once the mover has done it all.
    std::vector<Event> settled() {
        while (mover->under_way() > 0) {
            mover->wait_for_any();
        }
        runner.collect();
        return events.take();
    }

    std::shared_ptr<CpuDevice> device = CpuDevice::open({.limit_bytes = 16_MiB}).value();
    Blocks driver{*device};
    std::unique_ptr<Mover> mover;
    EventQueue events;
    Encodings encodings;
    Accounting accounting{
        {.device_limit_bytes = 16_MiB, .keep_timeline = true}, *device, *mover, encodings};
    CommandRunner runner{
        Face::cpp, {*device, *mover, driver, encodings, accounting, events}, [] {}};
};

}  // namespace spillway
