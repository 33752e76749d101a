// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a session did: the numbers that a user sees. Plain struct; no torch, no threads.
#pragma once

#include "base/phase.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

/// Thread  a value; filled by Session::report() under the session's lock
/// Units   bytes and nanoseconds, counted since the session was opened
struct Report {
    std::int64_t device_limit_bytes = 0;  ///< 0: no cap
    std::int64_t device_bytes = 0;        ///< allocated now, as the allocator rounds
    std::int64_t device_peak_bytes = 0;
    std::array<std::int64_t, kPhases> device_peak_by_phase{};
    std::int64_t device_resident_peak_bytes = 0;  ///< pages the arena held at most
    /// The most that an answer of the executor granted; below the peak where the limit was far.
    std::int64_t ledger_peak_bytes = 0;

    std::int64_t saved_tensors = 0;         ///< pack calls
    std::int64_t saved_values = 0;          ///< different storages among them, eligible
    std::int64_t saved_bytes = 0;           ///< of those
    std::int64_t passed_tensors = 0;        ///< kept as plain autograd keeps them
    std::int64_t stored_bytes = 0;          ///< written to a tier
    std::int64_t loaded_bytes = 0;          ///< read back
    std::int64_t freed_bytes = 0;           ///< device bytes really given back by moving
    std::int64_t kept_by_others_bytes = 0;  ///< chosen, but something else held them

    std::int64_t stall_store_ns = 0;  ///< compute waited for a store to end
    std::int64_t stall_load_ns = 0;   ///< compute waited for a load to end
    std::int64_t store_busy_ns = 0;   ///< time with a store in flight
    std::int64_t load_busy_ns = 0;

    std::int64_t host_peak_bytes = 0;   ///< host tier
    std::int64_t nvme_peak_bytes = 0;   ///< NVMe tier, reserved
    std::int64_t nvme_moved_bytes = 0;  ///< of the stored and loaded ones, those of the NVMe tier
    std::int64_t staging_bytes = 0;     ///< memory of the runtime's own

    bool operator==(Report const&) const = default;
};

}  // namespace spillway
