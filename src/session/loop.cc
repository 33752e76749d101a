// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/loop.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/ordering_rules.h"
#include "executor/delta.h"
#include "executor/event_log.h"
#include "session/loop_pause.h"
#include "session/state_slot.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace spillway {

namespace {

/// How many not yet unshared values are looked at for every saved one: more than one, so that their
/// number does not grow.
constexpr std::size_t kLooksPerSave = 3;
/// Under a plan that was made of a trace, where all are looked at: a value leaves when the plan
/// says.
constexpr std::size_t kLooksUnderAPlan = 64;
constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

/// For a turn that a thread has which may wait for ours. A choice: longer than a disk takes.
constexpr std::chrono::milliseconds kTurnPatience{500};

/// What was asked of the executor was more than the program asked for.
Error in_pieces(Error const& error, std::int64_t size_bytes, Face face) {
    if (error.refusal == nullptr) {
        return error;
    }
    Refusal refusal = *error.refusal;
    refusal.is_in_pieces = true;
    refusal.asked_bytes = size_bytes;
    refusal.needed_bytes = refusal.used_bytes - refusal.freed_bytes + size_bytes;
    return {error.code, words_of(refusal, face), "", std::make_shared<Refusal const>(refusal)};
}

}  // namespace

Loop::Loop(
    LoopOptions options,
    std::shared_ptr<Device> device,
    std::unique_ptr<Mover> mover,
    Driver& driver
)
    : options_(std::move(options)),
      device_(std::move(device)),
      mover_(std::move(mover)),
      driver_(driver),
      encodings_(*device_, *mover_, options_.non_finite, options_.seed),
      accounting_(
          {options_.executor.device_bytes, options_.keep_timeline, options_.timeline_file},
          *device_,
          *mover_,
          encodings_
      ),
      runner_(
          options_.face,
          {*device_, *mover_, driver_, encodings_, accounting_, events_},
          [this] { settle(); }
      ),
      executor_(options_.executor) {
    if (!options_.flight_record.empty()) {
        flight_recorder_.emplace(options_.executor);
    }
    plan_uses_recipes_ = makes_again_by_plan();
    if (options_.planner) {
        accounting_.has_no_plan(options_.policy, "");
        trace_.emplace(*device_);
        is_to_plan_ = true;
        is_tracing_ = true;
    }
}

Loop::~Loop() {
    if (::getpid() != owner_) {
        return;  // a forked child: what flies, and its threads, are the parent's
    }
    mover_->end_limits();
    do {
        settle();
    } while (keeps(OrderingRule::closing_waits_for_copies) && mover_->under_way() > 0 &&
             mover_->wait_for_any() >= 0);
    settle();
    runner_.close();
    accounting_.close();
    MutexLock const lock(mutex_);
    std::vector<Command> none;  // no plan is made: no step begins
    is_to_plan_ = false;
    end_trace(none);
    if (log_ && !log_->flush()) {
        log_once(options_.record_events + ": cannot write the event log; it is not whole");
    }
}

Result<void> Loop::open_log() {
    if (options_.record_events.empty()) {
        return {};
    }
    MutexLock const lock(mutex_);
    log_.emplace(options_.record_events, std::ios::trunc);
    if (!*log_) {
        return Error{Errc::io, "cannot write the event log", options_.record_events};
    }
    *log_ << log_header(options_.executor) << '\n';
    return {};
}

/// The device pool now, as the executor is to see it: unreported saves do not count as floor.
Usage Loop::usage() {
    sort_dropped();  // their bytes are free already
    std::int64_t const peak = accounting_.take_peak();
    std::int64_t const unreported = backlog_.size_bytes();
    std::int64_t const allocated = device_->used_bytes();
    accounting_.uses(allocated);
    std::int64_t const used = std::max<std::int64_t>(0, allocated - unreported);
    return {.used_bytes = used, .peak_bytes = std::max(used, peak - unreported)};
}

void Loop::handle(Event const& event, std::vector<Command>& commands) {
    std::vector<Command> reply = executor_.on(event);
    all_on_device_ = executor_.all_on_device();
    if (auto const* const given = std::get_if<PlanGiven>(&event)) {
        see_plan(given->plan);
    }
    if (auto const* const saved = trial_ ? std::get_if<Saved>(&event) : nullptr) {
        trial_->saved(saved->value, saved->slot);
    }
    if (flight_recorder_) {
        flight_recorder_->add(event, reply);
    }
    if (log_) {
        *log_ << to_text(event) << '\n';
        for (Command const& command : reply) {
            *log_ << to_text(command) << '\n';
        }
    }
    if (trace_) {
        trace_->saw(event, [&](ValueId first) SPILLWAY_REQUIRES(mutex_) {
            return executor_.held_bytes_from(first);
        });
    }
    if (commands.empty()) {
        commands.swap(reply);
        return;
    }
    commands.insert(
        commands.end(), std::make_move_iterator(reply.begin()), std::make_move_iterator(reply.end())
    );
}

/// Hands what was queued to the executor, after `collect`.
void Loop::take_queued(std::vector<Command>& commands) {
    sort_dropped();
    for (Event const& event : events_.take()) {
        handle(event, commands);
    }
}

/// Values that ended leave the backlog; the executor is notified of those that it knows.
void Loop::sort_dropped() {
    if (!any_dropped_.load()) {
        return;
    }
    {
        MutexLock const lock(dropped_mutex_);
        any_dropped_ = false;
        dropped_now_.swap(dropped_);
    }
    for (ValueId const value : dropped_now_) {
        if (!backlog_.drop(value)) {
            events_.push(Dropped{value});
            encodings_.forget(value);
        }
    }
    dropped_now_.clear();
}

void Loop::report_backlog(std::vector<Command>& commands) {
    if (backlog_.empty()) {
        return;
    }
    std::int64_t used = usage().used_bytes;
    for (Backlog::Save& save : backlog_.take()) {
        used += save.size_bytes;
        handle(encodings_.event_of(std::move(save), {used, used}), commands);
    }
}

bool Loop::may_report_later(std::int64_t size_bytes, SavedAs const& as) const {
    return !trace_ && executor_.may_report_later(device_->used_bytes() + size_bytes, as.advice);
}

/// The replies to queued events and unreported saves, before a program event.
std::vector<Command> Loop::catch_up() {
    std::vector<Command> commands;
    take_queued(commands);
    report_backlog(commands);
    return commands;
}

Result<void> Loop::execute(std::vector<Command> const& commands) {
    Result<void> outcome = runner_.run(commands);
    if (!commands.empty()) {
        MutexLock const lock(mutex_);
        (void)usage();  // what the reply freed is not in the peak that the next event reports
    }
    return outcome;
}

/// Carries out a reply in which no failure has to reach the program.
void Loop::carry_out(std::vector<Command> const& commands) {
    Result<void> const outcome = execute(commands);
    SPILLWAY_ASSERT(outcome.ok(), "only a need or a short is answered by an error");
}

void Loop::begin_step(std::int64_t step) {
    Turn const turn(turn_);
    std::vector<Command> commands;
    runner_.collect();
    {
        MutexLock const lock(mutex_);
        step_ = step;
        encodings_.begin_step(step);
        runner_.begin_step();
        take_queued(commands);
        std::int64_t const took_ns = accounting_.begin_step();
        mend_plan(took_ns, commands);
        trace_may_turn(step, commands);
        matching_.begin_step();
        warn_of_strange_plan();
        give_first_plan(commands);
        if (flight_recorder_) {
            if (std::optional<ExecutorState> state = executor_.state()) {
                flight_recorder_->may_begin_at(std::move(*state));
            }
        }
        handle(Begin{step}, commands);
    }
    carry_out(commands);
}

void Loop::phase(Phase phase) {
    Turn const turn(turn_);
    Pause const pause(*this);
    std::vector<Command> commands;
    runner_.collect();
    Unshared unshared = is_tracing() ? newly_unshared(kAll) : Unshared();
    {
        MutexLock const lock(mutex_);
        Usage const now = usage();  // what was until here belongs to the phase that ends
        phase_ = phase;
        matching_.begin_phase(phase);
        accounting_.begin_phase(step_, phase);
        take_queued(commands);
        tell(std::move(unshared), now, commands);
        handle(PhaseBegan{phase, now}, commands);
    }
    carry_out(commands);
}

void Loop::backward_order(std::vector<ValueId> values) {
    take(BackwardOrder{std::move(values)});
}

void Loop::plan(Plan plan) {
    take(PlanGiven{std::move(plan)});
}

/// Reports an event, after everything that was not reported yet.
void Loop::take(Event const& event) {
    Turn const turn(turn_);
    std::vector<Command> commands;
    runner_.collect();
    {
        MutexLock const lock(mutex_);
        commands = catch_up();
        handle(event, commands);
    }
    carry_out(commands);
}

/// The path of a save that has nothing to report and nothing to decide: no event, no turn. `slot`
/// becomes the plan's.
bool Loop::saved_quietly(
    ValueId value, std::int64_t size_bytes, Slot& slot, SavedAs const& as, SaveMark const& mark
) {
    bool const something_ended = mover_->has_completions();
    bool const is_saved = !is_of_optimizer(slot);
    if (is_saved) {
        accounting_.saved(size_bytes);
    }
    MutexLock const lock(mutex_);
    if (is_saved) {
        match(value, slot, mark);
    }
    sort_dropped();
    if (something_ended || !events_.empty() || !may_report_later(size_bytes, as)) {
        return false;
    }
    backlog_.add(value, size_bytes, std::move(slot), as);
    return true;
}

void Loop::saved(
    ValueId value, std::int64_t size_bytes, Slot slot, SavedAs const& asked, SaveMark const& mark
) {
    SavedAs const as = encodings_.possible(asked, value, size_bytes);
    if (saved_quietly(value, size_bytes, slot, as, mark)) {
        return;
    }
    Turn const turn(turn_);
    Pause const pause(*this);
    std::vector<Command> commands;
    bool reported_later = false;
    runner_.collect();
    {
        MutexLock const lock(mutex_);
        take_queued(commands);
        reported_later = may_report_later(size_bytes, as);
        if (reported_later) {
            backlog_.add(value, size_bytes, std::move(slot), as);
        }
    }
    if (!reported_later) {
        Unshared unshared = newly_unshared(
            is_tracing()  ? kAll
            : is_planned_ ? kLooksUnderAPlan
                          : kLooksPerSave
        );
        MutexLock const lock(mutex_);
        report_backlog(commands);
        Usage const now = usage();
        handle(encodings_.event_of({value, size_bytes, std::move(slot), as}, now), commands);
        tell(std::move(unshared), now, commands);
    }
    carry_out(commands);
}

Loop::Unshared Loop::newly_unshared(std::size_t at_most) {
    Unshared unshared{driver_.newly_unshared(at_most), {}};
    std::vector<ValueId> asked = driver_.found_recipes();
    asked.insert(asked.end(), unshared.values.begin(), unshared.values.end());
    for (ValueId const value : asked) {
        if (std::optional<ValueRecipe> recipe = driver_.recipe_of(value)) {
            std::int64_t const move_ns = accounting_.move_ns(recipe->size_bytes);
            bool const is_cheaper =
                options_.executor.eviction == EvictionRule::delta
                    ? delta_remakes(recipe->size_bytes, move_ns, recipe->shape.duration_ns)
                    : move_ns == 0 || recipe->shape.duration_ns <= move_ns;
            unshared.made.push_back({value, std::move(recipe->shape), is_cheaper});
        }
    }
    return unshared;
}

void Loop::tell(Unshared unshared, Usage const& now, std::vector<Command>& commands) {
    for (Made& made : unshared.made) {
        handle(std::move(made), commands);
    }
    if (!unshared.values.empty()) {
        handle(Point{std::move(unshared.values), now}, commands);
    }
}

void Loop::goes_raw(ValueId value) {
    {
        MutexLock const lock(mutex_);
        if (std::optional<bool> const was_lossy = backlog_.goes_raw(value)) {
            accounting_.goes_raw(*was_lossy);
            return;
        }
    }
    if (!encodings_.goes_raw(value)) {
        return;
    }
    accounting_.goes_raw(true);
    if (!all_on_device()) {
        take(AboutToWrite{value});  // what may be encoded is no source of a recipe
    }
}

/// One answer to an allocation that did not fit. Where the count has room for it, the device's free
/// memory is in pieces, and nobody knows what has to leave: as many bytes as were asked for, since
/// a GPU waits for all of its work at each new try. `used_before`: when it did not fit.
Result<void> Loop::make_room_once(std::int64_t size_bytes, std::int64_t used_before) {
    std::vector<Command> commands;
    bool is_in_pieces = false;
    Unshared unshared = newly_unshared(kAll);
    runner_.collect();
    {
        MutexLock const lock(mutex_);
        take_queued(commands);
        report_backlog(commands);
        Usage const now = usage();
        tell(std::move(unshared), now, commands);
        std::int64_t const room = options_.executor.device_bytes - now.used_bytes;
        bool const came_free = now.used_bytes < used_before;
        is_in_pieces = !came_free && room >= size_bytes;
        if (!came_free || room < size_bytes) {
            handle(Short{is_in_pieces ? room + size_bytes : size_bytes, now}, commands);
        }
    }
    Result<void> outcome = execute(commands);
    if (!is_in_pieces || outcome.ok()) {
        return outcome;
    }
    bool const is_less = device_->used_bytes() < used_before;
    return is_less ? Result<void>() : in_pieces(outcome.error(), size_bytes, options_.face);
}

/// Of this loop's own values.
Result<void> Loop::make_own_room(std::int64_t size_bytes) {
    std::int64_t const asked_ns = steady_now_ns();
    std::int64_t const used_before = device_->used_bytes();
    Turn const turn(turn_);
    accounting_.begin_admission(asked_ns);
    Result<void> outcome = make_room_once(size_bytes, used_before);
    // Where the program runs far ahead of the device, what ended there still holds room on a tier.
    while (!outcome.ok() && mover_->under_way() > 0) {
        mover_->wait_for_any();
        outcome = make_room_once(size_bytes, device_->used_bytes());
    }
    accounting_.end_admission(steady_now_ns());
    return outcome;
}

/// Note [Turns of two loops]
/// The driver may ask another loop for room, and that one this: so it is asked without this loop's
/// turn where nothing above holds it, and else the way back gives up soon.
Result<void> Loop::make_room(std::int64_t size_bytes) {
    if (driver_.borrow(size_bytes, false)) {
        return {};
    }
    Result<void> outcome = make_own_room(size_bytes);
    if (!outcome.ok() && driver_.borrow(size_bytes, true)) {
        return {};
    }
    if (!outcome.ok()) {
        write_flight_record();
    }
    return outcome;
}

bool Loop::make_room_for_another(std::int64_t size_bytes) {
    Turn const turn(turn_, kTurnPatience);
    return turn.owns_lock() && make_room(size_bytes).ok();
}

/// A step has failed: what led to it goes to the file.
void Loop::write_flight_record() {
    MutexLock const lock(mutex_);
    if (!flight_recorder_) {
        return;
    }
    Result<void> const written = flight_recorder_->write(options_.flight_record);
    log_once(
        written.ok()
            ? "the last steps are in " + options_.flight_record + "; `spillway replay` reads it"
            : written.error().message()
    );
}

void Loop::dropped(ValueId value) noexcept {
    MutexLock const lock(dropped_mutex_);
    dropped_.push_back(value);
    any_dropped_ = true;
}

void Loop::settle() {
    Turn const turn(turn_);
    std::vector<Command> commands;
    runner_.collect();
    {
        MutexLock const lock(mutex_);
        take_queued(commands);
    }
    carry_out(commands);
}

LedgerView Loop::ledger() const {
    MutexLock const lock(mutex_);
    return executor_.ledger();
}

Report Loop::report() {
    Report report = accounting_.report();
    MutexLock const lock(mutex_);
    report.ledger_peak_bytes = executor_.granted_peak_bytes();
    report.recompute_away_peak_bytes = executor_.gone_by_recipe_peak_bytes();
    return report;
}

}  // namespace spillway
