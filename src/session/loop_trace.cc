// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How a loop makes the trace of a step, when it begins and ends, and comes by its plan.

#include "base/log.h"
#include "policy/catalog.h"
#include "session/given_plan.h"
#include "session/loop.h"
#include "session/loop_pause.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

/// A step of which no plan can be made may have been none like the others: an evaluation, or one
/// that an exception ended. Until this one another is recorded.
constexpr std::int64_t kLastStepToPlan = 12;
constexpr char const* kNothingNeeded =
    "backward needed no tensor that could leave: all are small, or the next forward began before "
    "it";

/// An evaluation may have none, with gradients on.
bool has_backward(Trace const& trace) {
    return std::any_of(trace.points.begin(), trace.points.end(), [](TracePoint const& point) {
        return point.phase == Phase::backward && !point.needed.empty();
    });
}

}  // namespace

Loop::Pause::Pause(Loop& loop) : loop_(loop) {
    if (loop_.is_tracing()) {
        std::int64_t const waited_ns = loop_.stalled_ns();
        MutexLock const lock(loop_.mutex_);
        if (loop_.trace_) {
            loop_.trace_->ends_point(waited_ns);
        }
    }
}

Loop::Pause::~Pause() {
    if (loop_.is_tracing()) {
        std::int64_t const waited_ns = loop_.stalled_ns();
        MutexLock const lock(loop_.mutex_);
        if (loop_.trace_) {
            loop_.trace_->begins_point(waited_ns);
        }
    }
}

Result<void> Loop::trace_a_step(std::string const& path) {
    MutexLock const lock(mutex_);
    if (trace_ && trace_->path().empty() && !trace_->has_begun()) {
        return trace_->open(path);  // the step that is recorded for the plan
    }
    if (trace_ && trace_->path().empty()) {
        return Error{
            Errc::unsupported,
            "a step is being recorded for the policy's plan; ask when it has ended",
            ""};
    }
    if (trace_) {
        return Error{
            Errc::unsupported,
            "the trace in " + trace_->path() +
                " is not done yet; it is when the step after the next has ended",
            ""};
    }
    trace_.emplace(*device_);
    Result<void> const opened = trace_->open(path);
    if (!opened.ok()) {
        trace_.reset();
        return opened;
    }
    trace_is_warm_ = false;
    is_tracing_ = true;
    return {};
}

void Loop::add_to_trace(std::unordered_map<ValueId, TraceWords> const& words) {
    MutexLock const lock(mutex_);
    if (trace_) {
        trace_->add_words(words);
    }
}

void Loop::begin_pass() {
    MutexLock const lock(mutex_);
    matching_.begin_pass();
}

/// Once for each save, in their order. A trace has the slot that the driver counted.
void Loop::match(ValueId value, Slot& slot, SaveMark const& mark) {
    std::int32_t const counted = slot.occurrence;
    matching_.match(slot, mark);
    if (trace_ && trace_->has_begun() && slot.occurrence != counted) {
        trace_->was_counted(value, counted);
    }
}

/// A step begins, and the one before it ends.
void Loop::trace_may_turn(std::int64_t step, std::vector<Command>& commands) {
    if (!trace_) {
        return;
    }
    if (trace_->has_begun()) {
        end_trace(commands);
    } else if (std::exchange(trace_is_warm_, true)) {
        report_backlog(commands);  // what was saved before is none of the trace's
        trace_->begin("step " + std::to_string(step), phase_, accounting_.stalled_ns());
        if (is_to_plan_) {
            matching_.begin_sequence();
        }
    }
}

void Loop::end_trace(std::vector<Command>& commands) {
    if (!trace_) {
        return;
    }
    is_tracing_ = false;
    if (trace_->has_begun()) {
        trace_->end(usage(), accounting_.stalled_ns());
        Trace const trace = trace_->trace();
        Result<void> const written = trace_->path().empty() ? Result<void>() : trace_->write(trace);
        if (!written.ok()) {
            log_once(written.error().message());
        }
        if (std::exchange(is_to_plan_, false)) {
            make_plan_of(trace, commands);
        }
    } else if (!trace_->path().empty()) {
        log_once(
            trace_->path() +
            ": no trace was written, since the session had fewer than two steps after it was asked "
            "for"
        );
    }
    trace_.reset();
    if (is_to_plan_) {
        trace_.emplace(*device_);  // warm: it begins with the next step
        is_tracing_ = true;
    }
}

bool Loop::makes_again_by_plan() const {
    return options_.plan && makes_again(*options_.plan);
}

void Loop::see_plan(Plan const& plan) {
    ++plans_;
    is_planned_ = true;
    plan_uses_recipes_ = uses_recipes(plan);
    making_plan_ = makes_again(plan) ? plans_ : 0;
}

/// The first step under it has ended.
void Loop::warn_of_strange_plan() {
    std::optional<SlotMatching::Followed> const followed = matching_.end_count();
    if (followed && 2 * followed->saved < followed->all) {
        log_once(
            "plan " + options_.plan->policy + ": a step saved only " +
            std::to_string(followed->saved) + " of its " + std::to_string(followed->all) +
            " tensors, so it is of another model or step; `online` decides about all others; "
            "make a plan of a trace of this one"
        );
    }
}

/// Where the first step begins.
void Loop::give_first_plan(std::vector<Command>& commands) {
    if (!options_.plan || std::exchange(had_first_plan_, true)) {
        return;
    }
    Plan const& plan = *options_.plan;
    matching_.begin_count(plan);
    report_backlog(commands);  // what was saved before is none of the plan's
    accounting_.plan_begins(plan.policy, plan.predicted_step_ns, plan.predicted_peak_bytes);
    handle(PlanGiven{plan}, commands);
}

/// Between two steps. Where there is none, `online` goes on.
void Loop::make_plan_of(Trace const& trace, std::vector<Command>& commands) {
    Result<Plan> plan = has_backward(trace) ? options_.planner(trace, nullptr)
                                            : Error{Errc::unsupported, kNothingNeeded, "trace"};
    matching_.end_sequence(plan.ok());
    if (!plan.ok()) {
        accounting_.has_no_plan(options_.policy, why_no_plan(plan.error()));
        is_to_plan_ = plan.error().code == Errc::unsupported && step_ < kLastStepToPlan;
        log_once(
            "policy " + options_.policy +
            ": no plan, so `online` goes on: " + why_no_plan(plan.error())
        );
        return;
    }
    begin_trial(*plan, trace);
    accounting_.plan_begins(plan->policy, plan->predicted_step_ns, plan->predicted_peak_bytes);
    handle(PlanGiven{std::move(plan).value()}, commands);
}

/// Of a policy that learns.
void Loop::begin_trial(Plan const& plan, Trace const& trace) {
    Policy const* const policy = find_policy(options_.policy);
    if (policy == nullptr || !policy->learns) {
        return;
    }
    accounting_.keep_return_waits(true);
    trial_.emplace(plan, [trace, planner = options_.planner](PlanRan const& ran) {
        return planner(trace, &ran);
    });
}

/// A step has ended: what it waited for may make another plan.
void Loop::mend_plan(std::int64_t step_ns, std::vector<Command>& commands) {
    if (!trial_) {
        return;
    }
    std::optional<Plan> plan = trial_->step_ended(step_ns, accounting_.take_return_waits());
    accounting_.plan_was_mended(trial_->rounds());
    if (trial_->is_done()) {
        accounting_.keep_return_waits(false);
        trial_.reset();
    }
    if (plan) {
        report_backlog(commands);  // what was saved before is none of the plan's
        accounting_.plan_begins(plan->policy, plan->predicted_step_ns, plan->predicted_peak_bytes);
        handle(PlanGiven{*std::move(plan)}, commands);
    }
}

}  // namespace spillway
