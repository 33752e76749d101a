// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "simulator/run.h"

#include "executor/delta.h"

#include <algorithm>
#include <ostream>
#include <utility>

namespace spillway {

SimulatorRun::SimulatorRun(
    Trace const& trace,
    Machine const& machine,
    ExecutorOptions const& options,
    Plan const* plan,
    SimulatorOptions const& how
)
    : trace_(trace),
      machine_(machine),
      how_(how),
      options_(options),
      plan_(plan),
      advice_(options_, how_, plan),
      executor_(options),
      memory_(options),
      mover_(machine, how_, {trace, advice_, situation_, memory_, result_, [this] { deliver(); }}),
      promises_(options_, memory_, mover_),
      random_(how.seed ^ 0x5deece66dU) {
    result_.log.options = options;
    result_.timeline.name = trace.name;
    result_.return_waits_ns.assign(trace.values.size(), 0);
}

Result<SimulationResult> SimulatorRun::run() {
    if (plan_ != nullptr) {
        ask(PlanGiven{*plan_});
    }
    for (std::int64_t step = 0; step < how_.steps && going(); ++step) {
        run_step(step);
    }
    drain();
    memory_.check_empty();
    if (!memory_.verdict()) {
        Error error = memory_.verdict().error();
        error.where = trace_.name + " point " + std::to_string(at_point_);
        return error;
    }
    result_.total_ns = mover_.now_ns();
    for (std::size_t pool = 0; pool < kPools; ++pool) {
        result_.peak_bytes[pool] = memory_.peak_bytes(static_cast<Pool>(pool));
    }
    result_.device_byte_ns = memory_.device_byte_ns();
    result_.value_byte_ns = memory_.held_byte_ns();
    result_.timeline.memory = memory_.take_record();
    return std::move(result_);
}

void SimulatorRun::run_step(std::int64_t step) {
    first_value_ = step * static_cast<std::int64_t>(trace_.values.size());
    live_.assign(trace_.values.size(), false);
    in_phase_ = false;
    result_.before_last_step_ns = result_.program_ns();
    result_.return_waits_ns.assign(trace_.values.size(), 0);
    situation_.floor.last_highest_bytes = std::exchange(situation_.floor.highest_bytes, 0);
    ask(Begin{step});
    for (at_point_ = 0; at_point_ < trace_.points.size() && going(); ++at_point_) {
        run_point(trace_.points[at_point_]);
    }
    drop_rest();
    memory_.free(std::exchange(situation_.floor.now_bytes, 0));
    ask(End{step});
}

void SimulatorRun::run_point(TracePoint const& point) {
    enter_phase(point.phase);
    if (point.floor_bytes < situation_.floor.now_bytes && !set_floor(point.floor_bytes)) {
        return;
    }
    for (ValueId const value : point.needed) {
        if (!need(id_of(value))) {
            return;
        }
    }
    if (!set_floor(point.floor_bytes)) {
        return;
    }
    for (ValueId const value : point.saved) {
        if (!save(id_of(value), trace_.values[value.index()])) {
            return;
        }
        live_[value.index()] = true;
    }
    compute(point.duration_ns);
    end_point(point);
}

void SimulatorRun::enter_phase(Phase phase) {
    if (in_phase_ && phase == phase_) {
        return;
    }
    in_phase_ = true;
    phase_ = phase;
    deliver();
    ask(PhaseBegan{phase, usage()});
    if (phase == Phase::backward && how_.order != OrderHint::none) {
        report_order();
    }
}

void SimulatorRun::report_order() {
    std::vector<ValueId> order;
    std::vector<bool> listed(trace_.values.size(), false);
    for (std::size_t i = at_point_; i < trace_.points.size(); ++i) {
        for (ValueId const value : trace_.points[i].needed) {
            if (live_[value.index()] && !listed[value.index()]) {
                listed[value.index()] = true;
                order.push_back(id_of(value));
            }
        }
    }
    if (how_.order == OrderHint::wrong) {
        order.push_back(ValueId{first_value_ + static_cast<std::int64_t>(random_() % 64)});
        for (std::size_t i = order.size(); i > 1; --i) {
            std::swap(order[i - 1], order[random_() % i]);
        }
        order.resize(random_() % (order.size() + 1));
    }
    ask(BackwardOrder{std::move(order)});
}

/// Note [A need is asked again]
/// When a store fails, the room that a need counted on does not come free, and its reserve finds
/// none. Room is then made by a `short` of its own, after the reply was carried out to its end: an
/// event in the middle could undo commands that were not yet given.
bool SimulatorRun::need(ValueId value) {
    deliver();
    memory_.use_begins(value);
    situation_.needed = value;
    situation_.answering_need = true;
    do {
        ask_need(value);
    } while (going() && !memory_.is_held(value));
    if (going() && ++needs_ == how_.write_every) {
        needs_ = 0;
        write(value);
    }
    situation_.answering_need = false;
    return going();
}

/// What is made from it is made first.
void SimulatorRun::write(ValueId value) {
    while (going() && memory_.is_pinned(value)) {
        ask(AboutToWrite{value});
        carry_out_runs();
    }
    if (going()) {
        memory_.written(value);
        ask(AboutToWrite{value});
    }
}

/// Runs of recipes, which compute. After a refusal those that are left end, too.
void SimulatorRun::carry_out_runs() {
    deliver();
    while (std::optional<Command> const run = mover_.take_run()) {
        bool const ok = going() && carry_out(*run);
        mover_.run_ended(*run, ok);
        deliver();
        for (ValueId const id : memory_.take_unpinned()) {
            mover_.queue(Dropped{id});
        }
    }
    deliver();
}

bool SimulatorRun::carry_out(Command const& run) {
    auto const in_trace = static_cast<std::size_t>(run.value.number) % trace_.values.size();
    RecipeShape const& recipe = *trace_.values[in_trace].recipe;
    std::int64_t const transient_bytes = recipe.transient_bytes * how_.transient_percent / 100;
    if (++runs_ == how_.fail_recompute) {
        result_.ok = false;
        result_.refusal = "cannot make value " + std::to_string(run.value.number) + ": injected";
        return false;
    }
    if (!request(run.size_bytes)) {
        return false;
    }
    if (!request(transient_bytes)) {
        memory_.free(run.size_bytes);
        return false;
    }
    std::int64_t const start_ns = mover_.now_ns();
    result_.slowed_ns += mover_.compute(recipe.duration_ns);
    memory_.free(transient_bytes);
    ++result_.recomputes;
    result_.recompute_ns += recipe.duration_ns;
    result_.recomputed_bytes += run.size_bytes;
    if (how_.keep_timeline && recipe.duration_ns > 0) {
        result_.timeline.spans.push_back(
            {Lane::compute, "recompute", run.value, run.size_bytes, start_ns, mover_.now_ns()}
        );
    }
    return true;
}

void SimulatorRun::ask_need(ValueId value) {
    mover_.begin_need();
    ask(Need{value, usage()});
    carry_out_runs();
    if (memory_.is_held(value) || !going()) {
        return;
    }
    std::string const who = "need of value " + std::to_string(value.number);
    if (mover_.missing_bytes() == 0) {
        memory_.broken(who + " did not bring it back");
        return;
    }
    bool const had_room = make_room(mover_.missing_bytes());
    if (had_room && mover_.missed_without_fault()) {
        memory_.broken(who + " was answered without room, though there could be some");
    }
}

bool SimulatorRun::set_floor(std::int64_t floor_bytes) {
    if (floor_bytes <= situation_.floor.now_bytes) {
        memory_.free(situation_.floor.now_bytes - floor_bytes);
    } else if (!request(floor_bytes - situation_.floor.now_bytes)) {
        return false;
    }
    situation_.floor.now_bytes = floor_bytes;
    return going();
}

bool SimulatorRun::save(ValueId value, TraceValue const& what) {
    if (!request(what.size_bytes)) {
        return false;
    }
    RuleAnswer const answer = advice_.rule_of(what.slot);
    bool const may_leave = advice_.advice_of(what.slot) != Advice::never;
    std::int64_t const encoded_bytes = advice_.encoded_bytes_of(what);
    memory_.saved(value, what.size_bytes, encoded_bytes, may_leave);
    ask(Saved{value, what.size_bytes, what.slot, usage(), encoded_bytes, answer.advice});
    return going();
}

void SimulatorRun::compute(std::int64_t duration_ns) {
    deliver();
    promises_.check_held(executor_.ledger());
    std::int64_t const start_ns = mover_.now_ns();
    result_.slowed_ns += mover_.compute(duration_ns);
    result_.compute_ns += duration_ns;
    if (how_.keep_timeline && duration_ns > 0) {
        result_.timeline.spans.push_back(
            {Lane::compute, std::string(name_of(phase_)), ValueId{}, 0, start_ns, mover_.now_ns()}
        );
    }
}

void SimulatorRun::end_point(TracePoint const& point) {
    for (ValueId const value : point.needed) {
        memory_.use_ends(id_of(value));
    }
    Point event;
    for (ValueId const value : point.unshared) {
        event.unshared.push_back(id_of(value));
        memory_.became_unshared(id_of(value));
        if (how_.has_recipes && trace_.values[value.index()].recipe) {
            tell_recipe(value);
        }
    }
    if (!event.unshared.empty()) {
        deliver();
        event.usage = usage();
        ask(event);
    }
    for (ValueId const value : point.dropped) {
        live_[value.index()] = false;
        drop(id_of(value));
    }
}

void SimulatorRun::tell_recipe(ValueId in_trace) {
    Made made{id_of(in_trace), *trace_.values[in_trace.index()].recipe};
    for (ValueId& source : made.recipe.sources) {
        source = id_of(source);
    }
    made.before_moves = how_.recompute_before_moves;
    if (options_.eviction == EvictionRule::delta) {
        std::int64_t const size_bytes = trace_.values[in_trace.index()].size_bytes;
        made.before_moves = made.before_moves &&
                            delta_remakes(size_bytes, move_ns(size_bytes), made.recipe.duration_ns);
    }
    memory_.has_recipe(made.value, made.recipe.sources);
    deliver();
    ask(made);
}

void SimulatorRun::drop(ValueId value) {
    if (memory_.dropped(value)) {
        mover_.queue(Dropped{value});
    }
    for (ValueId const id : memory_.take_unpinned()) {
        mover_.queue(Dropped{id});
    }
}

void SimulatorRun::drop_rest() {
    for (std::size_t i = 0; i < live_.size(); ++i) {
        if (live_[i]) {
            ValueId const id = id_of(ValueId{static_cast<std::int64_t>(i)});
            drop(id);
        }
    }
    live_.assign(live_.size(), false);
}

/// Lets everything in flight end and reports it to the executor, until nothing is left to report.
void SimulatorRun::drain() {
    do {
        deliver();
        mover_.finish_all();
    } while (mover_.has_queued() && memory_.verdict().ok());
    promises_.check_empty(executor_.ledger());
}

Usage SimulatorRun::usage() {
    return {memory_.used_bytes(Pool::device), memory_.take_recent_peak()};
}

/// Out and back, to the first pool that there is; 0: there is none.
std::int64_t SimulatorRun::move_ns(std::int64_t size_bytes) const {
    bool const is_host = options_.host_bytes > 0;
    if (!is_host && options_.nvme_bytes <= 0) {
        return 0;
    }
    double ns = 0;
    for (Lane const lane :
         {is_host ? Lane::copy_out : Lane::nvme_write, is_host ? Lane::copy_in : Lane::nvme_read}) {
        MachineLink const& link = *link_of(machine_, lane);
        ns += static_cast<double>(size_bytes) * 1e9 / link.rate_bytes_per_s;
    }
    return static_cast<std::int64_t>(ns);
}

ValueId SimulatorRun::id_of(ValueId in_trace) const {
    return ValueId{first_value_ + in_trace.number};
}

bool SimulatorRun::make_room(std::int64_t size_bytes) {
    auto tries = static_cast<std::int64_t>(trace_.values.size()) + 8;
    while (going()) {
        deliver();
        if (memory_.fits(size_bytes)) {
            return going();
        }
        if (--tries < 0) {
            memory_.broken("a short was answered again and again without room");
            return false;
        }
        ++result_.shorts;
        promises_.short_begins();
        ask(Short{size_bytes, usage()});
        deliver();
        promises_.short_answered(size_bytes, result_.ok);
    }
    return false;
}

bool SimulatorRun::request(std::int64_t size_bytes) {
    if (!make_room(size_bytes)) {
        return false;
    }
    memory_.allocate(size_bytes);
    return going();
}

void SimulatorRun::record(LogEntry entry) {
    if (how_.log_to != nullptr) {
        *how_.log_to << std::visit([](auto const& e) { return to_text(e); }, entry) << std::endl;
    }
    if (how_.keep_log) {
        result_.log.entries.push_back(std::move(entry));
    }
}

void SimulatorRun::deliver() {
    while (mover_.has_queued() && memory_.verdict().ok()) {
        handle(*mover_.take_queued());
    }
}

void SimulatorRun::ask(Event const& event) {
    deliver();
    handle(event);
}

void SimulatorRun::handle(Event const& event) {
    record(event);
    if (is_program_event(event)) {
        situation_.floor.highest_bytes =
            std::max(situation_.floor.highest_bytes, situation_.floor.now_bytes);
    }
    std::vector<Command> const reply = executor_.on(event);
    for (Command const& command : reply) {
        record(command);
    }
    bool const makes_room = std::holds_alternative<Short>(event) ||
                            std::holds_alternative<Need>(event) ||
                            std::holds_alternative<AboutToWrite>(event);
    bool const made_room = std::exchange(situation_.making_room, makes_room);
    for (Command const& command : reply) {
        if (!memory_.verdict()) {
            break;
        }
        mover_.execute(command);
    }
    situation_.making_room = made_room;
}

}  // namespace spillway
