// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How fast bytes move here, measured: between memory and a tier, and between a device and memory.
#pragma once

#include "base/result.h"
#include "machine/machine.h"
#include "memory/device.h"
#include "tier/tier.h"

#include <cstdint>
#include <functional>

namespace spillway {

/// Bytes a second of one connection.
struct LinkRates {
    double out = 0;  ///< away from the device, while nothing comes back
    double in = 0;
    double both_out = 0;  ///< while bytes move the other way, too; at most `out`
    double both_in = 0;
    std::int64_t latency_ns = 0;  ///< of the smallest transfer, the slower way

    bool operator==(LinkRates const&) const = default;
};

/// Stores and loads blocks for about `budget_ns` each way and both ways, a few in flight, from
/// memory of its own. The tier is left as it was.
///
/// Thread  waits; nothing else should use the tier
/// Fails   the tier's errors; Errc::tier_full: it has no room for eight blocks
///         of 64 KiB
[[nodiscard]] Result<LinkRates> measure_tier(Tier& tier, std::int64_t budget_ns = 100'000'000);

/// Copies between the device and memory that the tier lends (Tier::memory), on the device's
/// streams.
///
/// Fails   Errc::unsupported: the device is the host, or the tier lends none; Errc::out_of_memory:
///         no room for 64 KiB on the device
[[nodiscard]] Result<LinkRates> measure_copies(
    Device& device, Tier& tier, std::int64_t budget_ns = 100'000'000
);

/// Bytes a second that one core reads and writes of the host's memory, copying blocks that no cache
/// holds, for about `budget_ns`.
///
/// Fails   Errc::out_of_memory: no 128 MiB
[[nodiscard]] Result<double> measure_host_memory(std::int64_t budget_ns = 100'000'000);

/// Share of its speed that a device's `work`, which is done when it returns, lacks while bytes move
/// between the device and the tier (DeviceSpeed::interference): 0 to kMostInterference. `work` is
/// timed in turn alone and beside one of the measurements above, each way for about `budget_ns`;
/// the median of some turns.
///
/// Thread  `work` runs on the calling thread; nothing else should use device and tier
/// Fails   what measure_tier fails with where the device is the host, else measure_copies
/// Throws  what `work` throws
[[nodiscard]] Result<double> measure_interference(
    Device& device,
    Tier& tier,
    std::function<void()> const& work,
    std::int64_t budget_ns = 50'000'000
);

/// Both directions between the device and `pool`, as a machine has them.
void add_links(Machine& machine, Pool pool, LinkRates const& rates);

}  // namespace spillway
