// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The loop that is the product: takes the program's events to the executor and carries the commands
// that answer them out, on the mover and the driver. Free of torch.
#pragma once

#include "base/mutex.h"
#include "base/result.h"
#include "executor/executor.h"
#include "memory/device.h"
#include "mover/mover.h"
#include "policy/planner.h"
#include "report/report.h"
#include "session/accounting.h"
#include "session/backlog.h"
#include "session/command_runner.h"
#include "session/driver.h"
#include "session/encodings.h"
#include "session/event_queue.h"
#include "session/flight_recorder.h"
#include "session/history.h"
#include "session/plan_trial.h"
#include "session/saved_as.h"
#include "session/slot_matching.h"
#include "session/trace_recorder.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace spillway {

struct LoopOptions {
    Face face = Face::cpp;  ///< whose names of options words use
    ExecutorOptions executor;
    std::string record_events;  ///< file for the event and command log; empty: none
    std::string flight_record;  ///< file for the last steps' log, written when one fails; or empty
    /// File for the last steps' timeline, written at the end, however that comes; or empty. The
    /// mover measures then (MoverOptions).
    std::string timeline_file;
    bool keep_timeline = false;  ///< without a file, too: for `write_timeline_now`; of fewer steps
    NonFinite non_finite = NonFinite::keep;
    std::uint64_t seed = 0;  ///< of stochastic codecs: equal steps of equal seeds give equal bits
    /// Makes the plan of a session that plans for itself, from the trace of its second step; the
    /// executor's chooser is `planned`. Null: there is no plan, or one is given (Loop::plan).
    Planner planner = nullptr;
    /// The planner's, for the report. Where it learns (Policy::learns), the planner mends the plan
    /// at steps' boundaries, as Note [Rounds of feedback] says.
    std::string policy = {};
    /// A plan that is there before the first step, and runs from where that begins; the executor's
    /// chooser is `planned`. None: as `planner` says.
    std::optional<Plan> plan = std::nullopt;
};

/// Thread  program events from any number of program threads, which take turns: a reply is carried
///         out whole, its waits included, before the next event. `dropped` from any thread,
///         without a turn. One mutex guards the executor and is never held while a command runs or
///         a thread waits
class Loop {
  public:
    Loop(
        LoopOptions options,
        std::shared_ptr<Device> device,
        std::unique_ptr<Mover> mover,
        Driver& driver
    );
    /// Waits for what is in flight. No value may be left. In a forked child it does nothing.
    ~Loop();

    /// Opens the event log, if one was asked for.
    ///
    /// Fails   Errc::io naming the file
    [[nodiscard]] Result<void> open_log();
    /// The same for the timeline.
    [[nodiscard]] Result<void> open_timeline() { return accounting_.open_timeline(); }
    /// What is kept of the timeline, into another file.
    ///
    /// Fails   Errc::io naming the file; Errc::unsupported: nothing is kept
    [[nodiscard]] Result<void> write_timeline_now(std::string const& path) {
        return accounting_.write_timeline_now(path);
    }

    /// Writes the trace of a step into a file: of the one after the next, so that the next one
    /// warms up what a trace needs. It is written when that step ends, where another begins, or
    /// with the loop. Until then every save and every need is reported.
    ///
    /// Fails   Errc::io naming the file; Errc::unsupported: another trace is not done yet
    [[nodiscard]] Result<void> trace_a_step(std::string const& path);
    [[nodiscard]] bool is_tracing() const { return is_tracing_.load(std::memory_order_relaxed); }
    /// What is known of the step's values, any number of times.
    void add_to_trace(std::unordered_map<ValueId, TraceWords> const& words);

    // Program events.
    void begin_step(std::int64_t step);
    void phase(Phase phase);
    void backward_order(std::vector<ValueId> values);
    void plan(Plan plan);
    /// A pass begins: the driver counts slots afresh.
    void begin_pass();
    /// Autograd saved `value`, of `size_bytes` as the device rounds, which is to leave as was
    /// asked. Where the encoding would take no fewer bytes, does not fit the mover's staging, is
    /// not of all of the value or not one that the device takes, it goes as it is. Under a plan
    /// that was made of a step of this loop's, `slot` and `mark` tell which of that step's saves it
    /// is.
    void saved(
        ValueId value,
        std::int64_t size_bytes,
        Slot slot,
        SavedAs const& asked = {},
        SaveMark const& mark = {}
    );
    /// A second kind of saver has the value, which is on the device: from now on it leaves as it
    /// is, and a copy of it that is away, or on its way, counts no more.
    void goes_raw(ValueId value);
    /// While it is held, no other thread's events are answered or carried out.
    using Turn = std::unique_lock<std::recursive_timed_mutex>;
    [[nodiscard]] Turn take_turn() { return Turn(turn_); }

    /// What a value is needed for.
    enum class Use : std::uint8_t {
        read,
        write,  ///< what is made of it is made first, and no copy of it counts any more
    };
    /// The value is on the device, with the driver's storage bound, while the turn is held that is
    /// returned. A thread that has the turn already computes with it: others wait.
    ///
    /// Fails   the load's error, with the tensor's description in front, a corrupt coded block's
    ///         too; Errc::out_of_memory; Errc::unsupported: NonFinite::refuse, and its codec cannot
    ///         give it back
    [[nodiscard]] Result<Turn> need(ValueId value, Use use = Use::read);
    /// Makes room for an allocation of `size_bytes` that did not fit; the caller tries again.
    ///
    /// Fails   Errc::out_of_memory, with its Refusal, when nothing eligible is left
    [[nodiscard]] Result<void> make_room(std::int64_t size_bytes);
    /// The same for another loop's thread, which has the turn there: where this loop's turn does
    /// not come soon, it is false, since its thread may wait for that other turn.
    [[nodiscard]] bool make_room_for_another(std::int64_t size_bytes);

    /// True while no value has left and no trace is made: then no `need` has an answer, and none
    /// has to be asked.
    [[nodiscard]] bool all_on_device() const {
        return all_on_device_.load() && !encodings_.any_refused() && !is_tracing();
    }

    /// Device bytes of values that are on their way back, before anybody needs them.
    [[nodiscard]] std::int64_t returning_bytes() const { return runner_.returning_bytes(); }

    // Queued events.
    /// No saved tensor refers to the value any more. Never waits.
    void dropped(ValueId value) noexcept;

    /// Carries out what queued events opened. For when no program event comes by.
    void settle();

    [[nodiscard]] Report report();
    /// That compute has waited, for whatever cause.
    [[nodiscard]] std::int64_t stalled_ns() const { return accounting_.stalled_ns(); }
    /// Where values have been since `begin_histories`, where the timeline is kept.
    [[nodiscard]] std::map<ValueId, History> histories() const { return accounting_.histories(); }
    void begin_histories() { accounting_.begin_histories(); }
    /// Whether it makes a plan for itself (LoopOptions::planner).
    [[nodiscard]] bool plans() const { return options_.planner != nullptr; }
    /// Whether the plan that it was opened with has values made again (LoopOptions::plan).
    [[nodiscard]] bool makes_again_by_plan() const;
    /// Whether the plan that runs needs recipes (uses_recipes); false: or there is none.
    [[nodiscard]] bool plan_uses_recipes() const { return plan_uses_recipes_; }
    /// Counts the plans that have values made again; 0: the one that runs has none.
    [[nodiscard]] std::int64_t making_plan() const { return making_plan_; }
    [[nodiscard]] Phase current_phase() const { return phase_; }
    [[nodiscard]] std::int64_t step() const { return step_; }
    [[nodiscard]] LedgerView ledger() const;

  private:
    [[nodiscard]] Usage usage() SPILLWAY_REQUIRES(mutex_);
    void write_flight_record();
    class Pause;
    void trace_may_turn(std::int64_t step, std::vector<Command>& commands)
        SPILLWAY_REQUIRES(mutex_);
    void end_trace(std::vector<Command>& commands) SPILLWAY_REQUIRES(mutex_);
    void warn_of_strange_plan() SPILLWAY_REQUIRES(mutex_);
    void give_first_plan(std::vector<Command>& commands) SPILLWAY_REQUIRES(mutex_);
    void see_plan(Plan const& plan) SPILLWAY_REQUIRES(mutex_);
    void make_plan_of(Trace const& trace, std::vector<Command>& commands) SPILLWAY_REQUIRES(mutex_);
    void begin_trial(Plan const& plan, Trace const& trace) SPILLWAY_REQUIRES(mutex_);
    void mend_plan(std::int64_t step_ns, std::vector<Command>& commands) SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] std::vector<Command> catch_up() SPILLWAY_REQUIRES(mutex_);
    void take(Event const& event);
    void carry_out(std::vector<Command> const& commands);
    [[nodiscard]] Result<void> execute(std::vector<Command> const& commands);
    void take_queued(std::vector<Command>& commands) SPILLWAY_REQUIRES(mutex_);
    void sort_dropped() SPILLWAY_REQUIRES(mutex_);
    void match(ValueId value, Slot& slot, SaveMark const& mark) SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] bool saved_quietly(
        ValueId value, std::int64_t size_bytes, Slot& slot, SavedAs const& as, SaveMark const& mark
    );
    void report_backlog(std::vector<Command>& commands) SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] bool may_report_later(std::int64_t size_bytes, SavedAs const& as) const
        SPILLWAY_REQUIRES(mutex_);
    void handle(Event const& event, std::vector<Command>& commands) SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] std::optional<Error> refusal_of(ValueId value) const;
    /// Values that became unshared, and recipes of some.
    struct Unshared {
        std::vector<ValueId> values;
        std::vector<Made> made;
    };
    [[nodiscard]] Unshared newly_unshared(std::size_t at_most);
    void tell(Unshared unshared, Usage const& now, std::vector<Command>& commands)
        SPILLWAY_REQUIRES(mutex_);
    [[nodiscard]] Result<void> answer_need(ValueId value, Use use, std::vector<Command>& commands);
    [[nodiscard]] std::int64_t found_no_room_bytes(std::vector<Command> const& commands) const;
    [[nodiscard]] bool may_need_again(std::vector<Command> const& commands);
    [[nodiscard]] Result<bool> without_turn(Turn& turn);
    [[nodiscard]] Result<void> recompute(std::vector<Command> const& runs);
    void run_ended(Command const& run, Result<std::int64_t> const& outcome, std::int64_t took_ns);
    [[nodiscard]] Result<void> make_own_room(std::int64_t size_bytes);
    [[nodiscard]] Result<void> make_room_once(std::int64_t size_bytes, std::int64_t used_before);

    pid_t const owner_ = ::getpid();
    LoopOptions const options_;
    std::shared_ptr<Device> const device_;
    std::unique_ptr<Mover> const mover_;
    Driver& driver_;

    // These lock for themselves; none calls the loop but the runner, with the turn alone.
    EventQueue events_;
    Encodings encodings_;
    Accounting accounting_;
    CommandRunner runner_;

    /// Whose reply is carried out; program threads alone take it.
    std::recursive_timed_mutex turn_;
    mutable Mutex mutex_;
    Executor executor_ SPILLWAY_GUARDED_BY(mutex_);
    Backlog backlog_ SPILLWAY_GUARDED_BY(mutex_);
    std::vector<ValueId> dropped_now_ SPILLWAY_GUARDED_BY(mutex_);  ///< empty between calls
    std::optional<std::ofstream> log_ SPILLWAY_GUARDED_BY(mutex_);
    std::optional<FlightRecorder> flight_recorder_ SPILLWAY_GUARDED_BY(mutex_);
    std::optional<TraceRecorder> trace_ SPILLWAY_GUARDED_BY(mutex_);
    SlotMatching matching_ SPILLWAY_GUARDED_BY(mutex_);
    bool trace_is_warm_ SPILLWAY_GUARDED_BY(mutex_) = false;
    bool is_to_plan_ SPILLWAY_GUARDED_BY(mutex_) = false;  ///< of the trace that is under way
    bool had_first_plan_ SPILLWAY_GUARDED_BY(mutex_) = false;
    std::optional<PlanTrial> trial_ SPILLWAY_GUARDED_BY(mutex_);  ///< while the plan is mended
    std::atomic<bool> is_tracing_ = false;

    std::atomic<Phase> phase_ = Phase::setup;
    std::atomic<std::int64_t> step_ = 0;
    std::atomic<bool> all_on_device_ = true;
    std::atomic<bool> is_planned_ = false;  ///< a plan was given
    std::atomic<bool> plan_uses_recipes_ = false;
    std::atomic<std::int64_t> making_plan_ = 0;
    std::int64_t plans_ = 0;  ///< that were given

    Mutex dropped_mutex_;
    std::vector<ValueId> dropped_ SPILLWAY_GUARDED_BY(dropped_mutex_);
    std::atomic<bool> any_dropped_ = false;
};

}  // namespace spillway
