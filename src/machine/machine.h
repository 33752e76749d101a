// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A machine: the memories that bytes can wait in, how fast they move between them, and how fast the
// device computes. Text form: docs/formats/machine.md.
#pragma once

#include "base/place.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

/// One memory. A machine has at most one of each pool.
struct MachineTier {
    std::string name;
    Pool pool = Pool::device;
    std::int64_t capacity_bytes = 0;

    bool operator==(MachineTier const&) const = default;
};

/// One direction of one way between two tiers.
struct MachineLink {
    Pool from = Pool::device;
    Pool to = Pool::host;
    double rate_bytes_per_s = 0;            ///< while the way back is idle
    double both_ways_rate_bytes_per_s = 0;  ///< while the way back is busy too; <= the other
    std::int64_t latency_ns = 0;            ///< of each transfer, on top of its bytes
    std::string group;                      ///< the share group; empty: none

    bool operator==(MachineLink const&) const = default;
};

/// Links that pass through one switch, memory or drive: together they are no faster than this.
struct ShareGroup {
    std::string name;
    double rate_bytes_per_s = 0;

    bool operator==(ShareGroup const&) const = default;
};

constexpr double kMostInterference = 0.9;  ///< above it compute would almost stand still

/// How fast the device computes at best. A rate of 0 is not known.
struct DeviceSpeed {
    double float32_flop_per_s = 0;  ///< of products in float32, as torch does them by default
    double half_flop_per_s = 0;     ///< of products in float16 and bfloat16
    double memory_bytes_per_s = 0;  ///< of its own memory, read or written
    double interference = 0;        ///< share of its speed that it lacks while bytes move to or
                                    ///< from it; 0 to kMostInterference
    double encode_bytes_per_s = 0;  ///< of its codecs, on raw bytes
    double decode_bytes_per_s = 0;

    bool operator==(DeviceSpeed const&) const = default;
};

struct Machine {
    std::string name;
    std::vector<MachineTier> tiers;
    std::vector<MachineLink> links;
    std::vector<ShareGroup> groups;
    DeviceSpeed device{};
    std::vector<std::string> sources{};  ///< where its figures are from, for people

    bool operator==(Machine const&) const = default;
};

/// Fails   Errc::bad_argument naming the tier, link or group: a pool or link listed twice, a link
///         to a pool without a tier or to itself, a rate that is not above 0, a both-ways rate
///         above the one-way rate, a group that is not listed, a capacity or latency below 0; a
///         device's rate between 0 and 1, an interference outside 0 to 0.9
[[nodiscard]] Result<void> validate(Machine const& machine);

[[nodiscard]] std::string to_json_text(Machine const& machine);
/// Fails   Errc::bad_format naming the field; what `validate` refuses is refused here too
[[nodiscard]] Result<Machine> parse_machine(std::string_view text);

/// The tier or link, or null.
[[nodiscard]] MachineTier const* find_tier(Machine const& machine, Pool pool);
[[nodiscard]] MachineLink const* find_link(Machine const& machine, Pool from, Pool to);
/// The link that a copy lane works on. NVMe lanes: device to NVMe, else host to NVMe.
[[nodiscard]] MachineLink const* link_of(Machine const& machine, Lane lane);

}  // namespace spillway
