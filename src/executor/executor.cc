// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/executor.h"

#include "base/assert.h"
#include "base/rules.h"
#include "executor/decisions.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace spillway {

namespace {

/// Without an order, what was saved last is needed first.
std::int64_t distance_by_age(ValueId id) {
    return -id.number;
}

}  // namespace

Executor::Executor(ExecutorOptions const& options, ExecutorState const& state)
    : impl_(std::make_unique<Impl>(options, state)) {}
Executor::~Executor() = default;

std::vector<Command> Executor::on(Event const& event) {
    return impl_->answer(event);
}

LedgerView Executor::ledger() const {
    return impl_->ledger();
}

std::int64_t Executor::granted_peak_bytes() const {
    return impl_->granted_peak_bytes();
}

std::optional<ExecutorState> Executor::state() const {
    return impl_->state();
}

bool Executor::all_on_device() const {
    return impl_->all_on_device();
}

ExecutorOptions const& Executor::options() const {
    return impl_->options_;
}

bool Executor::may_be_told_later(std::int64_t used_bytes, Advice advice) const {
    return impl_->may_be_told_later(used_bytes, advice);
}

Executor::Impl::Impl(ExecutorOptions const& options, ExecutorState const& state)
    : options_(options),
      chooser_(make_chooser(options.chooser)),
      ledger_(options),
      floor_(state.floor_bytes, state.floor_peak_bytes, state.last_floor_peak_bytes),
      told_full_(state.told_full.begin(), state.told_full.end()),
      next_command_(state.next_command),
      next_block_(state.next_block),
      in_backward_(state.in_backward) {}

std::optional<ExecutorState> Executor::Impl::state() const {
    if (values_.size() > 0 || !flights_.empty() || plan_given_) {
        return std::nullopt;
    }
    return ExecutorState{
        .next_command = next_command_,
        .next_block = next_block_,
        .floor_bytes = floor_.now_bytes(),
        .floor_peak_bytes = floor_.peak_bytes(),
        .last_floor_peak_bytes = floor_.last_peak_bytes(),
        .in_backward = in_backward_,
        .told_full = {told_full_.begin(), told_full_.end()}};
}

LedgerView Executor::Impl::ledger() const {
    return {
        .held_bytes = values_.held_bytes(),
        .leaving_bytes = values_.droppable_bytes(),
        .reserved_bytes = ledger_.used_bytes(),
        .live_values = values_.size()};
}

std::vector<Command> Executor::Impl::answer(Event const& event) {
    reply_.clear();
    allowed_bytes_ = 0;
    std::visit([this](auto const& e) { take(e); }, event);
    held_before_bytes_ = values_.held_bytes();
    granted_peak_bytes_ = std::max(granted_peak_bytes_, used_bytes_ + allowed_bytes_);
    return std::exchange(reply_, {});
}

Command& Executor::Impl::say(CommandKind kind, Lane lane, ValueId value) {
    Command& command = reply_.emplace_back();
    command.id = CommandId{next_command_++};
    command.kind = kind;
    command.lane = lane;
    command.value = value;
    return command;
}

/// A run on the side lane for a block of a value, `size_bytes` long; its fence.
CommandId Executor::Impl::say_run(
    SideWork work, ValueId value, BlockId block, std::int64_t size_bytes, CommandId after
) {
    Command& run = say(CommandKind::run, Lane::side, value);
    run.work = work;
    run.block = block;
    run.size_bytes = size_bytes;
    run.after = {after};
    return run.id;
}

void Executor::Impl::say_wait(CommandId fence) {
    say(CommandKind::wait, Lane::compute).after = {fence};
}

void Executor::Impl::see(Usage const& usage) {
    used_bytes_ = usage.used_bytes;
    floor_.see(usage, values_.held_bytes(), held_before_bytes_);
}

void Executor::Impl::take(Begin const&) {
    floor_.begin_step();
    ledger_.reopen();  // what was full or failed may have mended
    refusals_.clear();
}

void Executor::Impl::take(End const&) {}

void Executor::Impl::take(PhaseBegan const& event) {
    see(event.usage);
    in_backward_ = event.phase == Phase::backward;
    ordered_ = false;
}

void Executor::Impl::take(PlanGiven const& event) {
    chooser_->take_plan(event.plan);
    plan_given_ = true;
}

void Executor::Impl::take(Saved const& event) {
    in_backward_ = false;
    values_.add(
        event.value,
        Value{
            .size_bytes = event.size_bytes,
            .encoded_bytes = event.encoded_bytes,
            .distance = distance_by_age(event.value),
            .choice = chooser_->choose(event)}
    );
    see(event.usage);
    store_ahead();
}

void Executor::Impl::take(Point const& event) {
    see(event.usage);
    for (ValueId const id : event.unshared) {
        Value* const value = values_.find(id);
        if (value == nullptr || value->unshared || value->orphan) {
            continue;
        }
        values_.alter(id, *value, [](Value& v) { v.unshared = true; });
        if (value->choice.advice == Advice::at_once && value->away == Away::none) {
            (void)start_store(id, false);
        }
    }
    if (!in_backward_) {
        store_ahead();
    }
}

void Executor::Impl::take(Need const& event) {
    see(event.usage);
    in_backward_ = true;
    bool room_is_ample = true;
    Value* const value = values_.find(event.value);
    SPILLWAY_ASSERT(value != nullptr && !value->orphan, "backward needs a value that lives");
    if (value->device == OnDevice::none) {
        std::int64_t const over = options_.device_bytes == 0
                                      ? 0
                                      : used_bytes_ + value->size_bytes - options_.device_bytes;
        room_is_ample = over <= 0;
        if (!room_is_ample) {
            (void)make_room(over);
        }
        start_load(event.value, *value, false);
    }
    if (value->device == OnDevice::returning) {
        if (keeps(Rule::need_waits_for_the_load)) {
            say_wait(value->load_fence);
        }
        say(CommandKind::bind, Lane::compute, event.value).after = {value->load_fence};
    } else if (!value->load_ended && keeps(Rule::every_asking_stream_waits)) {
        say_wait(value->load_fence);  // bound for another stream, while its copy still runs
    }
    values_.alter(event.value, *value, [&](Value& v) {
        v.device = OnDevice::held;
        v.unshared = false;
        v.fetched = true;
        v.distance = distance_by_age(event.value);
    });
    if (room_is_ample) {  // else what was just dropped would come straight back
        read_ahead();
    }
}

void Executor::Impl::take(AboutToWrite const& event) {
    Value* const value = values_.find(event.value);
    if (value == nullptr || value->device != OnDevice::held || value->away == Away::none) {
        return;
    }
    if (value->away == Away::storing && keeps(Rule::write_waits_for_the_store)) {
        say_wait(value->store_fence);
    }
    leave_copy_behind(event.value, *value);
}

void Executor::Impl::take(BackwardOrder const& event) {
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
}

void Executor::Impl::take(Short const& event) {
    see(event.usage);
    floor_.will_rise(event.size_bytes);
    // Without a cap it was the device itself that had no room.
    std::int64_t const missing = options_.device_bytes == 0
                                     ? event.size_bytes
                                     : used_bytes_ + event.size_bytes - options_.device_bytes;
    std::int64_t const freed = make_room(missing);
    if (freed < missing) {
        refuse(event, freed);
    } else {
        allowed_bytes_ = event.size_bytes;
    }
}

void Executor::Impl::take(Dropped const& event) {
    Value* const value = values_.find(event.value);
    if (value == nullptr) {
        return;
    }
    bool const storing = value->away == Away::storing && keeps(Rule::room_outlives_the_store);
    bool const loading = value->loads > 0 && keeps(Rule::room_outlives_the_load);
    if (storing || loading) {
        values_.alter(event.value, *value, [&](Value& v) {
            v.orphan = true;
            if (loading && v.device == OnDevice::held) {
                v.device = OnDevice::none;  // bound in stream order: the bytes went with the tensor
            }
        });
        return;
    }
    end_orphan(event.value, *value);
}

/// Takes what ended with `command` out of what is in flight. Nothing is `found` where nobody waits.
Executor::Impl::Flight Executor::Impl::end_flight(CommandId command) {
    auto const at = flights_.find(command);
    if (at == flights_.end()) {
        return {};
    }
    Flight flight = at->second;
    flights_.erase(at);
    flights_.erase(flight.reserve);
    flight.found = values_.find(flight.value);
    return flight;
}

void Executor::Impl::take(Finished const& event) {
    Flight const flight = end_flight(event.command);
    if (flight.found == nullptr) {
        return;
    }
    Value& value = *flight.found;
    if (flight.work == Work::store) {
        values_.alter(flight.value, value, [](Value& v) { v.away = Away::stored; });
        if (value.orphan) {
            end_orphan(flight.value, value);
        }
    } else if (flight.work == Work::load) {
        --value.loads;
        a_load_ended(event.command, flight, true);
    }
}

/// Of the value's present load, or of one that was given up while it flew.
void Executor::Impl::a_load_ended(CommandId fence, Flight const& flight, bool well) {
    Value& value = *flight.found;
    if (value.load_fence == fence) {
        load_ended(flight.value, value, well);
    } else if (value.orphan) {
        end_orphan(flight.value, value);
    }
}

void Executor::Impl::take(Failed const& event) {
    Flight const flight = end_flight(event.command);
    if (flight.found == nullptr) {
        return;
    }
    Value& value = *flight.found;
    switch (flight.work) {
        case Work::reserve_away:
            value.has_room = false;  // its store fails with it
            return;
        case Work::encode:
            encode_failed(flight.value, value, event);
            return;
        case Work::store:
            store_failed(flight.value, value, event);
            return;
        case Work::load:
            --value.loads;
            if (value.load_fence == event.command && !event.why.empty()) {
                say(CommandKind::note, Lane::compute).told =
                    Notice{NoticeCode::not_loaded, Pool::device, event.why};
            }
            a_load_ended(event.command, flight, false);
            return;
        case Work::drop:
            values_.alter(flight.value, value, [](Value& v) {
                v.device = OnDevice::held;
                v.unshared = true;
            });
            return;
    }
}

}  // namespace spillway
