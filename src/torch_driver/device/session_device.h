// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The device of a session, as the runtime and as torch see it, and memory and tiers beside it.
#pragma once

#include "memory/device.h"
#include "memory/host_memory.h"
#include "mover/device_coder.h"
#include "spillway/session.h"
#include "tier/tier.h"

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>

namespace spillway {

/// A session's device as torch names it.
struct TorchPlace {
    c10::Device device = c10::Device(c10::kCPU);
    c10::DeleterFnPtr free_block = nullptr;  ///< of storages whose bytes the device gave, whole
    std::int64_t max_value_bytes = std::numeric_limits<std::int64_t>::max();  ///< larger ones stay
};

struct SessionDevice {
    std::shared_ptr<Device> device;      ///< shared by the loop, the mover and the allocator
    std::shared_ptr<DeviceCoder> coder;  ///< null: none, or the host encodes and decodes in place
    TorchPlace place;
    /// Memory that the device copies to and from.
    std::function<Result<HostMemory>(std::int64_t size_bytes)> host_memory;
    /// For as long as the session lives, see C10Device.
    std::shared_ptr<void> pool_limit = nullptr;
};

/// Opens what `options` name.
///
/// Throws  BadOption
[[nodiscard]] SessionDevice open_session_device(SessionOptions const& options);
/// Null without a budget for it.
[[nodiscard]] std::unique_ptr<Tier> open_host(
    SessionOptions const& options, SessionDevice const& device
);
/// Null without a folder.
[[nodiscard]] std::unique_ptr<Tier> open_nvme(SessionOptions const& options);
/// Memory between such a device and NVMe; none where the disk reaches the device's own.
[[nodiscard]] HostMemory open_staging(SessionOptions const& options, SessionDevice const& device);

/// The value, or what stands against `option`.
template <typename T>
T value_or_throw(Result<T> result, char const* option) {
    if (!result.ok()) {
        throw BadOption({.option = option, .detail = result.error().message()});
    }
    return std::move(result).value();
}

}  // namespace spillway
