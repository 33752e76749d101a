// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a session may use. base/option_table.h lists these members for all who read or show them.
#pragma once

#include "base/option.h"

#include <cstdint>
#include <string>

namespace spillway {

/// What a session may use. Budgets are bytes; 0 means none of it (device: no cap; host: none on the
/// CPU and beside an NVMe folder, else four times the device budget or half of what is left,
/// whichever is less).
struct SessionOptions {
    std::int64_t device_budget_bytes = 0;
    std::int64_t host_budget_bytes = 0;
    std::string nvme = {};               ///< a folder; empty: no NVMe tier
    std::int64_t nvme_budget_bytes = 0;  ///< 0 with a folder: nine tenths of its free space
    bool nvme_allow_tmpfs = false;
    std::string policy = "online";  ///< a name of `policies()` (spillway/policy.h)
    std::string plan = {};          ///< a file of a plan; with the policy `online`. Empty: none
    /// What leaves may also be dropped, and made again by the operators that made it, bit for bit.
    /// "auto": where the policy or the plan asks for it, or where there is no place to move to.
    /// "on": always. "off": never; it is moved, or stays.
    std::string recompute = "auto";
    /// What may leave beside saved tensors. "stay": nothing. "optimizer": what the program lets
    /// leave between an optimizer's steps (Session::let_leave).
    std::string states = "stay";
    /// Smaller saved tensors stay: below this one costs more to move than it frees, a page of I/O
    /// each way and a transfer's bookkeeping. A choice, not a measurement yet.
    std::int64_t min_value_bytes = 65536;
    bool cap_from_open = true;   ///< false, on the CPU: only while a Recording or its graph lives
    bool whole_process = false;  ///< count every thread's allocations, not the opener's only
    std::string record_events = {};  ///< a file for the event and command log; empty: none
    std::string flight_record = {};  ///< a file for the last steps' log, written when one fails
    std::string device = "cpu";      ///< "cpu", "cuda", "cuda:1"
    std::string timeline_file = {};  ///< a file for trace viewers, filled when the session closes
    bool keep_timeline = false;      ///< keeps it for `write_timeline`, and what `explain` needs
    bool lossy = false;  ///< without it nothing ever loses a bit, and what would is refused
    /// In place of the policy's own, separated by commas: "affine4" for the classes that may lose
    /// something unnamed, "attention=affine8:group=64" for one (docs/lossy.md), "all=lossless".
    std::string codecs = {};
    /// What becomes of tensors with NaN or infinity under a codec that cannot give these back:
    /// "keep" (they leave as they are) or "refuse" (the step stops where one is needed).
    std::string nonfinite = "keep";
    /// Runs with equal ones round alike, step by step. -1: from torch's CPU seed, the rank and how
    /// many sessions this process has opened, so that no two sessions make the same errors.
    std::int64_t rounding_seed = -1;
    std::int64_t rank = 0;                   ///< of this process among those that train together
    std::int64_t nvme_rate_bytes_per_s = 0;  ///< slows NVMe down to that each way; to measure
    Face face = Face::cpp;                   ///< whose names of options messages use
    std::string opened_at = {};  ///< where the user opens it, for messages: "train.py:12"
};

}  // namespace spillway
