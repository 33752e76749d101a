// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/device/session_device.h"

#include "base/units.h"
#include "memory/cpu_device.h"
#include "policy/catalog.h"
#include "session/places.h"
#include "tier/host_tier.h"
#include "torch_driver/allocator/allocator.h"
#include "torch_driver/device/c10_device.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace spillway {

namespace {

/// The smallest host tier: a page.
constexpr std::int64_t kLeastHostBytes = 4096;

/// Pinned memory between a device and NVMe: what is under way, and no saved tensor that is longer
/// goes there. A choice, not a measurement yet.
constexpr std::int64_t kStagingBytes = 512_MiB;

/// What a device with memory of its own gets where the user names no place: values have to go
/// somewhere, and locking memory takes time and takes it from others.
std::int64_t default_host_bytes(SessionOptions const& options, HostLimits const& limits) {
    constexpr std::int64_t kDeviceBudgets = 4;
    std::int64_t const wanted = kDeviceBudgets * options.device_budget_bytes;
    std::int64_t const left = limits.left_bytes();
    return left == HostLimits::kUnlimited ? wanted : std::clamp<std::int64_t>(left / 2, 0, wanted);
}

/// Throws  BadOption
void refuse_if(std::optional<OptionFault> fault) {
    if (fault) {
        throw BadOption(*std::move(fault));
    }
}

}  // namespace

SessionDevice open_session_device(SessionOptions const& options) {
    if (options.device == "cpu") {
        std::shared_ptr<CpuDevice> device = value_or_throw(
            CpuDevice::open({.limit_bytes = options.device_budget_bytes}), "device_budget_bytes"
        );
        return {
            .device = std::move(device),
            .coder = nullptr,
            .place = {.free_block = &free_block},
            .host_memory = [](std::int64_t size_bytes) { return map_host_memory(size_bytes); }};
    }
    std::shared_ptr<C10Device> device =
        value_or_throw(open_c10_device(options.device, options.device_budget_bytes), "device");
    TorchPlace const place{.device = device->where(), .free_block = device->deleter()};
    auto host_memory = [device](std::int64_t size_bytes) {
        return device->host_memory(size_bytes);
    };
    auto coder = std::dynamic_pointer_cast<DeviceCoder>(device);
    return {device, std::move(coder), place, host_memory, device->take_pool_limit()};
}

std::unique_ptr<Tier> open_host(SessionOptions const& options, SessionDevice const& device) {
    HostLimits const limits = read_host_limits();
    bool const is_asked = options.host_budget_bytes > 0;
    Policy const* const policy = find_policy(options.policy);  // null: `planned`
    bool const moves = policy == nullptr || policy->moves;
    bool const needs_one = !device.device->is_host() && options.nvme.empty() && moves;
    std::int64_t const bytes = is_asked    ? options.host_budget_bytes
                               : needs_one ? default_host_bytes(options, limits)
                                           : 0;
    if (bytes < kLeastHostBytes && !is_asked) {
        return nullptr;
    }
    refuse_if(check_host_place(bytes, limits));
    return HostTier::open(value_or_throw(device.host_memory(bytes), "host_budget_bytes"));
}

std::unique_ptr<Tier> open_nvme(SessionOptions const& options) {
    std::unique_ptr<Tier> tier;
    refuse_if(open_nvme_place(options, tier));
    return tier;
}

HostMemory open_staging(SessionOptions const& options, SessionDevice const& device) {
    if (options.nvme.empty() || device.device->is_host()) {
        return {};
    }
    Result<void> const fits = check_host_budget(kStagingBytes, read_host_limits());
    if (!fits.ok()) {
        throw BadOption(
            {.option = "nvme",
             .detail = "staging between the device and NVMe: " + fits.error().message()}
        );
    }
    return value_or_throw(device.host_memory(kStagingBytes), "nvme");
}

}  // namespace spillway
