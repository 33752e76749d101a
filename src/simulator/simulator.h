// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The simulator: a training step in virtual time. It drives a real executor with a trace's events,
// carries its commands out on the lanes of a machine, and checks every promise of the executor on
// the way. What it predicts is what runs; only durations differ.
#pragma once

#include "base/option.h"
#include "base/place.h"
#include "base/result.h"
#include "executor/advice.h"
#include "executor/event_log.h"
#include "executor/executor_options.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "timeline/timeline.h"
#include "trace/trace.h"

#include <array>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

namespace spillway {

/// The order that `BackwardOrder` gives the executor when backward begins.
enum class OrderHint : std::uint8_t {
    none,   ///< no such event
    exact,  ///< the order in which the trace will need the live values
    wrong,  ///< a seeded shuffle of values, some of them unknown or over
};

/// The answer of the driver's rule for a value that is saved.
struct RuleAnswer {
    std::int64_t encoded_bytes = 0;  ///< what it takes outside the device; 0: goes as it is
    Advice advice = Advice::when_asked;
    bool operator==(RuleAnswer const&) const = default;
};

/// Faults and writes count from 1 over the whole run; 0 is none.
struct SimulatorOptions {
    std::int64_t steps = 1;  ///< the trace is run so often, each time with new values
    OrderHint order = OrderHint::none;
    bool settle_at_waits = true;  ///< completions reach the executor when a wait ends, as in a
                                  ///< session; else only before the next program event
    std::uint64_t seed = 0;
    double jitter = 0;  ///< a transfer takes up to this share more or less time; in [0, 0.95]
    std::int64_t fail_store = 0;      ///< the n-th store fails
    std::int64_t fail_load = 0;       ///< the n-th load fails
    std::int64_t fail_decode = 0;     ///< the n-th decode finds its code corrupt
    std::int64_t raw_every = 0;       ///< every n-th encode finds what its code cannot hold
    std::int64_t write_every = 0;     ///< after every n-th need the program writes what it needed
    std::int64_t fail_recompute = 0;  ///< the n-th run of a recipe fails
    std::int64_t no_recipe = 0;       ///< at the n-th drop by a recipe its sources have gone
    /// What runs of recipes allocate beside their results, in percent of what was foretold.
    std::int64_t transient_percent = 100;
    bool recompute_before_moves = true;  ///< the rule's answer for all recipes
    bool has_recipes = true;             ///< false: no value can be made again, as in a session
                                         ///< that records no operators
    bool fault_is_full = false;          ///< a failing store reports that its place is full
    /// A pool refuses what would take it above this, whatever its budget says; below 0: never.
    std::array<std::int64_t, kPools> full_at_bytes{-1, -1, -1};
    /// The answers of the driver's rule, by slot; slots that are not here get the default one.
    std::map<Slot, RuleAnswer> rule{};
    /// What the side lane encodes and decodes, in raw bytes. 0: as the machine does
    /// (plan/planned_codec.h), in no time where that is not known.
    double encode_rate_bytes_per_s = 0;
    double decode_rate_bytes_per_s = 0;
    bool keep_log = true;       ///< the result has the event log
    bool keep_timeline = true;  ///< and the timeline; both take time and memory
    Face face = Face::program;  ///< whose names of options a refusal uses
    /// Takes each line of the event log as it happens; outlives the call. Null: none.
    std::ostream* log_to = nullptr;
};

/// What would happen.
struct SimulationResult {
    bool ok = true;
    std::string refusal;  ///< when not ok: the error that the program, and so the user, gets
    std::int64_t total_ns = 0;
    std::int64_t compute_ns = 0;
    std::int64_t slowed_ns = 0;            ///< that it and recipes took longer since bytes moved
    std::int64_t stall_need_ns = 0;        ///< waited for bytes to come back
    std::int64_t stall_room_ns = 0;        ///< waited for bytes to leave
    std::int64_t before_last_step_ns = 0;  ///< `program_ns` when the last step began
    /// What each value's return was waited for in the last step: by its place in the trace.
    std::vector<std::int64_t> return_waits_ns;
    std::int64_t stored_bytes = 0;  ///< as they crossed the links: encoded where they were
    std::int64_t loaded_bytes = 0;
    std::int64_t encodes = 0;
    std::int64_t decodes = 0;
    std::int64_t recomputes = 0;
    std::int64_t recompute_ns = 0;
    std::int64_t recomputed_bytes = 0;
    std::int64_t shorts = 0;  ///< allocations that did not fit at once
    std::array<std::int64_t, kPools> peak_bytes{};
    /// Device bytes times the nanoseconds that they were there: over `total_ns` it is their
    /// average.
    double device_byte_ns = 0;
    double value_byte_ns = 0;  ///< of values alone: what is not of the floor
    Timeline timeline;
    EventLog log;

    /// Of the program: it ends before the last copies do.
    [[nodiscard]] std::int64_t program_ns() const {
        return compute_ns + recompute_ns + slowed_ns + stall_need_ns + stall_room_ns;
    }
};

/// Runs `trace` on `machine` under the budgets of `options`. A `plan` (may be null) is given before
/// the first step; what it moves by a codec takes that codec's bytes, whatever the driver's rule
/// says.
///
/// A budget that cannot be met is no failure: the result is not ok and carries the refusal.
/// Fails   Errc::bad_argument: the trace or machine is not valid, a pool that has a budget has no
///         link, an encoded size is below 0 or a rate below 1; Errc::broken_promise naming the
///         promise, the point and the value: a bug in the executor
[[nodiscard]] Result<SimulationResult> simulate(
    Trace const& trace,
    Machine const& machine,
    ExecutorOptions const& options,
    Plan const* plan,
    SimulatorOptions const& how
);

}  // namespace spillway
