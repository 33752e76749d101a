// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/executor.h"

#include "base/assert.h"
#include "base/ordering_rules.h"

#include <algorithm>
#include <variant>

namespace spillway {

namespace {

/// Without an order, what was saved last is needed first.
std::int64_t distance_by_age(ValueId id) {
    return -id.number;
}

bool moves(ExecutorOptions const& options) {
    return options.host_bytes > 0 || options.nvme_bytes > 0;
}

}  // namespace

Executor::Executor(ExecutorOptions const& options, ExecutorState const& state)
    : options_(options),
      chooser_(make_chooser(options.chooser)),
      ledger_(options, state.reported_full),
      floor_(state.floor_bytes, state.floor_peak_bytes, state.last_floor_peak_bytes),
      left_(state.left_bytes, state.last_left_bytes),
      reply_(state.next_command),
      transfers_(values_, ledger_, reply_, state.next_block),
      recompute_(values_, transfers_, reply_, options_.device_bytes, moves(options_)),
      room_({options_, values_, ledger_, floor_, left_, transfers_, recompute_, reply_}),
      in_backward_(state.in_backward) {
    if (state.plan) {
        take_plan(*state.plan);
    }
}

std::optional<ExecutorState> Executor::state() const {
    bool const is_idle = transfers_.is_idle() && transfers_.copies_left_behind() == 0;
    if (values_.size() > 0 || !is_idle) {
        return std::nullopt;
    }
    return ExecutorState{
        .next_command = reply_.next_command(),
        .next_block = transfers_.next_block(),
        .floor_bytes = floor_.now_bytes(),
        .floor_peak_bytes = floor_.peak_bytes(),
        .last_floor_peak_bytes = floor_.last_peak_bytes(),
        .in_backward = in_backward_,
        .left_bytes = left_.now_bytes(),
        .last_left_bytes = left_.last_bytes(),
        .reported_full = ledger_.reported_full(),
        .plan = plan_};
}

LedgerView Executor::ledger() const {
    return {
        .held_bytes = values_.held_bytes(),
        .leaving_bytes = values_.droppable_bytes(),
        .reserved_bytes = ledger_.used_bytes(),
        .live_values = values_.size() + transfers_.copies_left_behind()};
}

std::vector<Command> Executor::on(Event const& event) {
    allowed_bytes_ = 0;
    std::visit([this](auto const& e) { take(e); }, event);
    held_before_bytes_ = values_.held_bytes();
    granted_peak_bytes_ = std::max(granted_peak_bytes_, transfers_.used_bytes() + allowed_bytes_);
    return reply_.take();
}

void Executor::see(Usage const& usage) {
    transfers_.see_used(usage.used_bytes);
    floor_.see(usage, values_.held_bytes(), held_before_bytes_);
}

std::int64_t Executor::missing_bytes(std::int64_t more_bytes) const {
    return transfers_.used_bytes() + more_bytes - options_.device_bytes;
}

void Executor::take(Begin const&) {
    floor_.begin_step();
    left_.begin_step();
    ledger_.reopen();
}

void Executor::take(End const&) {}

void Executor::take(PhaseBegan const& event) {
    see(event.usage);
    in_backward_ = event.phase == Phase::backward;
    ordered_ = false;
}

void Executor::take(PlanGiven const& event) {
    take_plan(event.plan);
}

/// Choosers that read no plan have no times of one either.
void Executor::take_plan(Plan plan) {
    plan_ = std::move(plan);
    chooser_->take_plan(*plan_);
    times_.take_plan(options_.chooser == ChooserKind::planned ? *plan_ : Plan());
}

void Executor::take(Saved const& event) {
    in_backward_ = false;
    std::int32_t const place = times_.place_of(event.slot);
    bool const is_timed = place != PlanTimes::kNoPlace;
    Choice const choice = chooser_->choose(event);
    values_.add(
        event.value,
        Value{
            .size_bytes = event.size_bytes,
            .encoded_bytes = event.encoded_bytes,
            .distance = distance_by_age(event.value),
            .choice = choice,
            .used_at = values_.count_use(),
            .place = place,
            .is_to_leave = choice.recompute && !(is_timed && times_.has_leave(place)),
            .awaits_return = is_timed && times_.has_return(place),
            .goes_by_plan = choice.recompute}
    );
    see(event.usage);
    left_.begin();
    if (is_timed) {
        times_.saved(place, event.value);
        for (ValueId const id : times_.leaving_at(place)) {
            leave_by_plan(id);
        }
    }
    room_.store_ahead();
}

/// The value's time to leave has come; if others still hold it, it leaves when they do not.
void Executor::leave_by_plan(ValueId id) {
    Value* const value = values_.find(id);
    if (value == nullptr || value->fetched) {
        return;
    }
    values_.alter(id, *value, [](Value& v) { v.is_to_leave = true; });
    room_.leave_by_plan(id);
}

void Executor::take(Point const& event) {
    see(event.usage);
    for (ValueId const id : event.unshared) {
        Value* const value = values_.find(id);
        if (value == nullptr || value->unshared || value->orphan) {
            continue;
        }
        values_.alter(id, *value, [](Value& v) { v.unshared = true; });
        if (value->choice.advice == Advice::at_once && !value->copy) {
            (void)transfers_.start_store(id, false);
        }
        room_.leave_by_plan(id);
    }
    room_.recompute_by_plan();
    if (!in_backward_) {
        room_.store_ahead();
    }
}

void Executor::take(Need const& event) {
    see(event.usage);
    in_backward_ = true;
    bool room_is_ample = true;
    Value* const value = values_.find(event.value);
    SPILLWAY_ASSERT(value != nullptr && !value->orphan, "backward needs a value that lives");
    if (value->by_recipe) {
        if (!return_group({event.value})) {
            return;
        }
        room_is_ample = false;
    } else if (!value->takes_device_bytes()) {
        std::int64_t const over = options_.device_bytes == 0 ? 0 : missing_bytes(value->size_bytes);
        room_is_ample = over <= 0;
        if (!room_is_ample) {
            (void)room_.make_room(over);
        }
        transfers_.bring_back(event.value, *value, false);
    }
    if (value->way_back && !value->by_recipe) {
        transfers_.bind(event.value, *value);
    } else if (value->loads.last.valid() && keeps(OrderingRule::every_asking_stream_waits)) {
        reply_.add_wait(value->loads.last);  // bound for another stream, while its copy still runs
    }
    values_.alter(event.value, *value, [&](Value& v) {
        v.unshared = false;
        v.fetched = true;
        v.is_to_leave = false;
        v.distance = distance_by_age(event.value);
        v.used_at = values_.count_use();
    });
    room_.settle_by_plan(event.value);
    if (value->place != PlanTimes::kNoPlace) {
        room_.return_by_plan(times_.returning_at(value->place));
    }
    if (room_is_ample) {  // else what was just dropped would come straight back
        room_.read_ahead(ordered_);
    }
}

/// What is made from it is made before the write; then its copy is left behind.
void Executor::take(AboutToWrite const& event) {
    Value* const value = values_.find(event.value);
    if (value == nullptr) {
        return;
    }
    if (!value->dependents.empty()) {
        (void)return_group(std::vector<ValueId>(value->dependents));
        return;
    }
    transfers_.leave_copy_behind(event.value, *value);
}

/// The values come back, and all that they are made of. False: they do when what is under way has
/// ended, or there is no room for all of it.
bool Executor::return_group(std::vector<ValueId> const& wanted) {
    if (recompute_.under_way().valid()) {
        reply_.add_wait(recompute_.under_way());
        return false;
    }
    Recompute::Group const group = recompute_.group_of(wanted);
    recompute_.hold(group);
    if (options_.device_bytes > 0) {
        std::int64_t const over = missing_bytes(group.size_bytes + group.transient_bytes);
        std::int64_t const freed = over > 0 ? room_.make_room(over) : 0;
        if (freed < over - group.transient_bytes) {
            recompute_.give_up(group);
            room_.refuse({group.size_bytes, {transfers_.used_bytes() + freed}}, freed);
            return false;
        }
    }
    recompute_.bring_back(group);
    return true;
}

void Executor::take(Finished const& event) {
    if (!recompute_.ended(event.command)) {
        transfers_.ended(event.command);
    }
}

void Executor::take(Failed const& event) {
    if (!recompute_.failed(event.command)) {
        transfers_.failed(event);
    }
}

void Executor::take(BackwardOrder const& event) {
    ordered_ = true;
    std::int64_t rank = kOrderedFirst;
    for (ValueId const id : event.values) {
        Value* const value = values_.find(id);
        if (value != nullptr) {
            values_.alter(id, *value, [&](Value& v) {
                v.distance = rank++;
                v.fetched = false;
            });
        }
    }
    recompute_.order_all_sources();
}

void Executor::take(Short const& event) {
    see(event.usage);
    floor_.will_rise(event.size_bytes);
    std::int64_t const missing = options_.device_bytes == 0
                                     ? event.size_bytes  // the device itself had no room
                                     : missing_bytes(event.size_bytes);
    std::int64_t const freed = room_.make_room(missing);
    if (freed < missing) {
        room_.refuse(event, freed);
    } else {
        allowed_bytes_ = event.size_bytes;
    }
}

void Executor::take(Dropped const& event) {
    Value* const value = values_.find(event.value);
    if (value != nullptr && !recompute_.forget(event.value, *value)) {
        transfers_.forget(event.value, *value);
    }
}

}  // namespace spillway
