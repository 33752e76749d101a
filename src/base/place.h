// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The places where bytes wait, in the order in which they are preferred.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spillway {

/// A kind of memory with a budget of its own. Bytes flow device -> host -> nvme and back, so a
/// wait for room never closes a cycle.
enum class Pool : std::uint8_t { device, host, nvme };
inline constexpr std::size_t kPools = 3;

/// Where a value that leaves the device may go, best first.
inline constexpr std::array<Pool, 2> kAwayPools{Pool::host, Pool::nvme};
static_assert(kAwayPools[0] == Pool::host && kAwayPools[1] == Pool::nvme);

/// A queue whose commands start in order.
enum class Lane : std::uint8_t {
    compute,   ///< the program's own stream of work (on CPU: its thread)
    side,      ///< work beside it
    copy_out,  ///< device -> host
    copy_in,   ///< host -> device
    nvme_write,
    nvme_read,
};
inline constexpr std::size_t kLanes = 6;

[[nodiscard]] std::string_view name_of(Pool pool);
[[nodiscard]] std::string_view name_of(Lane lane);

}  // namespace spillway
