// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a session did: the numbers that a user sees. Plain struct; no torch, no threads.
#pragma once

#include "base/phase.h"
#include "report/peak_split.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

/// What compute waited for.
enum class StallCause : std::uint8_t {
    copy_out,   ///< a store to a place in memory
    copy_in,    ///< a load from there
    nvme,       ///< a store or load that goes to or through NVMe; the host thread waits
    admission,  ///< room for an allocation, apart from the waits above: choosing, dropping
};
inline constexpr std::size_t kStallCauses = 4;

/// "copy_out", "copy_in", "nvme", "admission".
[[nodiscard]] std::string_view name_of(StallCause cause);

/// What codecs did to one class of tensors: one row of the report.
struct CodecReport {
    std::string tensor_class;  ///< "linear_input"
    std::string codec;         ///< "affine4:group=128"
    double bits = 0;           ///< a raw element's, encoded, header included
    std::int64_t values = 0;   ///< encoded
    std::int64_t raw_bytes = 0;
    std::int64_t encoded_bytes = 0;
    std::int64_t encode_ns = 0;      ///< that encoding took, summed over threads
    std::int64_t decoded_bytes = 0;  ///< raw bytes that came back
    std::int64_t decode_ns = 0;
    /// Sums of squares over the elements that were looked at: of the errors and of the values.
    /// Their quotient's root is the relative L2 error.
    double error_squares = 0;
    double value_squares = 0;
    std::int64_t went_raw = 0;  ///< values that the codec refused: NaN, infinity, a third value

    /// The relative L2 error of what was looked at; 0 where nothing was, as with exact codecs.
    [[nodiscard]] double relative_l2_error() const;

    bool operator==(CodecReport const&) const = default;
};

/// What a session's plan foretold, and what came of it.
struct PlanReport {
    std::string policy;   ///< that made it or is to, "te:layers=8"; or a plan's file; empty: none
    std::string refusal;  ///< why there is no plan, so that `online` goes on; empty: there is one
    std::int64_t foretold_step_ns = 0;     ///< 0: nothing was
    std::int64_t foretold_peak_bytes = 0;  ///< of the device
    std::int64_t recorded_step_ns = 0;     ///< of the recorded step, under `online`; 0: none was
    std::int64_t steps = 0;                ///< whole ones under the plan
    std::int64_t step_ns = 0;              ///< their median, of the present plan's last 64
    std::int64_t feedback_rounds = 0;      ///< plans that were made of what the one before waited
    std::int64_t peak_bytes = 0;           ///< of the device since the plan

    bool operator==(PlanReport const&) const = default;
};

/// Thread  a value; filled by Session::report() under the session's lock
/// Units   bytes and nanoseconds, counted since the session was opened
struct Report {
    std::int64_t device_limit_bytes = 0;  ///< 0: no cap
    std::int64_t device_bytes = 0;        ///< allocated now, as the allocator rounds
    std::int64_t device_peak_bytes = 0;
    std::array<std::int64_t, kPhases> device_peak_by_phase{};
    PeakSplit device_peak_split = {};  ///< within 1% of the moment; sums to `device_peak_bytes`
    /// The smallest limit under which all this would have gone the same way, if what can leave had
    /// somewhere to go: the most that was allocated at once without it. Without a host or an NVMe
    /// budget more is needed. On devices with streams as seen by the host.
    std::int64_t device_needed_bytes = 0;
    std::int64_t device_resident_bytes =
        0;  ///< reserved now: allocated, and cached by the allocator
    std::int64_t device_resident_peak_bytes = 0;  ///< the most of it
    /// CPU: free memory given back to the system, since a new tensor fitted nowhere in it; what is
    /// taken anew costs page faults. 0 on devices whose allocator is PyTorch's.
    std::int64_t device_discarded_bytes = 0;
    /// Device memory that no allocator counts: the context of this process, and other processes. 0
    /// on the CPU, and where the device does not report it.
    std::int64_t device_other_bytes = 0;
    /// The most that an answer of the executor granted; below the peak where the limit was far.
    std::int64_t ledger_peak_bytes = 0;

    std::int64_t saved_tensors = 0;         ///< pack calls
    std::int64_t saved_values = 0;          ///< different storages among them, eligible
    std::int64_t saved_bytes = 0;           ///< of those
    std::int64_t passed_tensors = 0;        ///< kept as plain autograd keeps them
    std::int64_t stored_bytes = 0;          ///< written to a tier, of both
    std::int64_t loaded_bytes = 0;          ///< read back
    std::int64_t freed_bytes = 0;           ///< device bytes really given back by moving
    std::int64_t kept_by_others_bytes = 0;  ///< chosen, but something else held them

    std::int64_t recomputed_values = 0;          ///< made again by their recipes
    std::int64_t recomputed_bytes = 0;           ///< of those
    std::int64_t recomputed_operators = 0;       ///< that ran again for that
    std::int64_t recompute_ns = 0;               ///< that it took, as the host sees it
    std::int64_t refused_recipes = 0;            ///< kinds that once gave other bits
    std::int64_t recompute_away_peak_bytes = 0;  ///< gone at once, to be made again: at most so
                                                 ///< much lower is the peak for it
    std::int64_t steps_ns = 0;  ///< from the begin of the first phase to the last event

    std::int64_t stall_store_ns = 0;  ///< compute waited for a store to end
    std::int64_t stall_load_ns = 0;   ///< compute waited for a load to end
    /// Those two broken down by cause instead, with admission added.
    std::array<std::int64_t, kStallCauses> stall_by_cause_ns{};
    std::int64_t store_busy_ns = 0;  ///< time with a store in flight on a tier, summed over tiers
    std::int64_t load_busy_ns = 0;

    std::int64_t copy_out_bytes = 0;  ///< copied from the device on its stream; 0: none has streams
    std::int64_t copy_out_ns = 0;     ///< that those copies took, in the device's time
    std::int64_t copy_in_bytes = 0;   ///< copied to the device
    std::int64_t copy_in_ns = 0;

    std::int64_t host_peak_bytes = 0;       ///< host tier
    std::int64_t host_requested_bytes = 0;  ///< host memory asked for: the tier and staging
    std::int64_t host_locked_bytes = 0;     ///< of it locked (pinned), as the system rounds
    std::int64_t nvme_peak_bytes = 0;       ///< NVMe tier, reserved
    std::int64_t nvme_moved_bytes = 0;      ///< stored on the NVMe tier and loaded from it
    std::int64_t nvme_stored_bytes = 0;     ///< the first part of that
    std::int64_t nvme_store_busy_ns = 0;    ///< time with a store in flight there
    std::int64_t nvme_load_busy_ns = 0;
    std::int64_t staging_bytes = 0;  ///< memory of the runtime's own for bytes under way

    /// Values that left as they are because two savers read them for different purposes, where one
    /// alone had a codec.
    std::int64_t raw_for_two_savers = 0;
    std::vector<CodecReport> codecs = {};  ///< by class and codec; empty where nothing was encoded
    PlanReport plan = {};

    bool operator==(Report const&) const = default;
};

}  // namespace spillway
