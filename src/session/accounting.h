// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What happened, for people: the report's counters, the times that compute waited, the timeline of
// the last steps, each value's history. Nothing here decides anything.
#pragma once

#include "base/ids.h"
#include "base/mutex.h"
#include "base/phase.h"
#include "base/result.h"
#include "memory/device.h"
#include "mover/mover.h"
#include "report/report.h"
#include "session/encodings.h"
#include "session/history.h"
#include "session/moving.h"
#include "session/timeline_recorder.h"
#include "session/waits_for_returns.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

struct AccountingOptions {
    std::int64_t device_limit_bytes = 0;
    bool keep_timeline = false;      ///< and histories
    std::string timeline_file = {};  ///< written by `close`; empty: none
};

/// Thread  any; its mutex is held for no call of another part, but for the device's and the mover's
///         counters
class Accounting {
  public:
    Accounting(AccountingOptions options, Device& device, Mover& mover, Encodings const& encodings);

    /// Fails   Errc::io naming the file
    [[nodiscard]] Result<void> open_timeline();
    /// The timeline's file, if there is one, is written.
    void close();
    /// As Loop::write_timeline_now.
    [[nodiscard]] Result<void> write_timeline_now(std::string const& path);

    /// Returns what the step before took; 0: there was none.
    std::int64_t begin_step();
    /// From now on steps are the plan's.
    void plan_begins(std::string policy, std::int64_t step_ns, std::int64_t peak_bytes);
    /// So often, so far.
    void plan_was_mended(std::int64_t rounds);
    /// Whether waits for values that return are kept from now on, for `take_return_waits`.
    void keep_return_waits(bool keep);
    /// Those since the last call, in nanoseconds.
    [[nodiscard]] std::map<ValueId, std::int64_t> take_return_waits();
    /// `refusal` empty: it is yet to be made.
    void has_no_plan(std::string policy, std::string refusal);
    void begin_phase(std::int64_t step, Phase phase);

    /// With every event: the highest device bytes since the last one, which count for the present
    /// phase.
    [[nodiscard]] std::int64_t take_peak();
    /// What is allocated on the device now.
    void uses(std::int64_t allocated_bytes);

    void saved(std::int64_t size_bytes);
    void goes_raw(bool was_lossy);
    void store_begins(ValueId value, Pool pool);
    void encode_begins(ValueId value, Codec const& codec);
    void encode_refused(ValueId value);
    void left(ValueId value, std::int64_t size_bytes, bool came_free, bool by_recipe = false);
    void return_begins(CommandId command, ValueId value);
    void returned(ValueId value);
    void recomputed(
        ValueId value, std::int64_t size_bytes, std::int64_t operators, std::int64_t took_ns
    );
    /// What moving so many bytes out and back took so far; 0: nothing was moved yet.
    [[nodiscard]] std::int64_t move_ns(std::int64_t away_bytes) const;
    /// What the mover ended.
    void ended(Completion const& ended, Moving const& move);

    /// Room is being made from now on, by one thread at a time.
    void begin_admission(std::int64_t now_ns);
    void end_admission(std::int64_t now_ns);
    /// Compute has waited for this until now.
    void stalled(Moving const& waited_for, std::int64_t waited_ns);

    [[nodiscard]] bool keeps_timeline() const;
    [[nodiscard]] Report report();
    [[nodiscard]] std::int64_t stalled_ns() const;
    [[nodiscard]] std::map<ValueId, History> histories() const;
    void begin_histories();

  private:
    /// All that the mutex guards.
    struct State {
        Phase phase = Phase::setup;
        Report report;
        std::int64_t peak_bytes = 0;                 ///< of the device, since `take_peak`
        std::optional<std::int64_t> first_phase_ns;  ///< when it began
        std::optional<std::int64_t> admitting_since_ns;
        std::optional<std::int64_t> step_began_ns;
        std::vector<std::int64_t> step_times_ns;  ///< of the last steps under the plan
        bool is_planned = false;
        WaitsForReturns waits_for_returns;
        std::optional<TimelineRecorder> timeline;
        Histories histories;
    };

    void see_peak() SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] std::int64_t median_step_ns() const SPILLWAY_REQUIRES(mutex_);
    void admitted_until(std::int64_t end_ns) SPILLWAY_REQUIRES(mutex_);
    void take_stream_stalls() SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] std::int64_t& stalled_by(StallCause cause) SPILLWAY_REQUIRES(mutex_) {
        return state_.report.stall_by_cause_ns[static_cast<std::size_t>(cause)];
    }

    AccountingOptions const options_;
    Device& device_;
    Mover& mover_;
    Encodings const& encodings_;

    mutable Mutex mutex_;
    State state_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway
