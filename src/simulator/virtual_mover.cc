// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "simulator/virtual_mover.h"

#include "plan/planned_codec.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace spillway {

namespace {

/// What was asked for, else the machine's, else no time.
double rate_of(double asked, double of_machine) {
    return asked > 0        ? asked
           : of_machine > 0 ? std::max(1.0, of_machine)
                            : std::numeric_limits<double>::infinity();
}

}  // namespace

VirtualMover::VirtualMover(
    Machine const& machine, SimulatorOptions const& how, VirtualMoverSurroundings around
)
    : how_(how),
      around_(std::move(around)),
      memory_(around_.memory),
      result_(around_.result),
      interference_(machine.device.interference),
      lanes_(machine, fences_, how.seed, how.jitter) {
    CodecRates const rates = codec_rates(machine);
    lanes_.set_codec_rates(
        rate_of(how.encode_rate_bytes_per_s, rates.encode),
        rate_of(how.decode_rate_bytes_per_s, rates.decode)
    );
}

std::optional<Event> VirtualMover::take_queued() {
    if (queued_.empty()) {
        return std::nullopt;
    }
    Event event = std::move(queued_.front());
    queued_.pop_front();
    return event;
}

void VirtualMover::begin_need() {
    missing_bytes_ = 0;
    faults_before_need_ = faults_;
}

void VirtualMover::execute(Command const& command) {
    if (command.kind == CommandKind::wait) {
        wait(command);
        return;
    }
    FenceState const state = fences_.of(command.after);
    if (state == FenceState::unknown) {
        memory_.broken("command " + to_text(command) + " waits for what was never given");
        return;
    }
    if (state == FenceState::failed && command.work != SideWork::recompute) {
        fail_with_fence(command);
        return;
    }
    bool const is_recompute = command.work == SideWork::recompute;
    bool const on_lane = command.kind == CommandKind::store || command.kind == CommandKind::load ||
                         command.kind == CommandKind::run;
    if (state == FenceState::pending && !on_lane) {
        if (command.kind != CommandKind::drop) {
            memory_.broken("command " + to_text(command) + " came before its fences");
            return;
        }
        fences_.set(command.id, FenceState::pending);
        wait_with_drop(command);
        return;
    }
    if (is_recompute) {
        fences_.set(command.id, FenceState::pending);
    } else if (!on_lane) {
        fences_.set(command.id, FenceState::passed);
    }
    execute_now(command);
}

void VirtualMover::execute_now(Command const& command) {
    switch (command.kind) {
        case CommandKind::reserve:
            reserve(command);
            return;
        case CommandKind::release:
            memory_.release(command);
            return;
        case CommandKind::store:
            store(command);
            return;
        case CommandKind::load:
            load(command);
            return;
        case CommandKind::bind:
            memory_.bind(
                command, around_.situation.answering_need ? around_.situation.needed : ValueId{}
            );
            return;
        case CommandKind::drop:
            drop(command);
            return;
        case CommandKind::raise:
            refuse(words_of(std::get<Refusal>(command.message), how_.face));
            return;
        case CommandKind::run:
            run_work(command);
            return;
        case CommandKind::wait:
        case CommandKind::note:
            return;
    }
}

void VirtualMover::reserve(Command const& command) {
    if (command.pool != Pool::device) {
        std::int64_t const full_at = how_.full_at_bytes[static_cast<std::size_t>(command.pool)];
        if (full_at >= 0 && memory_.used_bytes(command.pool) + command.size_bytes > full_at) {
            memory_.reserve_refused(command);
            fail(command, {true, "injected: the place is full"});
            return;
        }
        memory_.reserve_away(command);
        return;
    }
    if (command.optional) {
        check_reserve(command);
    }
    if (memory_.fits(command.size_bytes)) {
        memory_.reserve_device(command);
        return;
    }
    memory_.reserve_refused(command);
    if (!command.optional) {
        missing_bytes_ = command.size_bytes;
        missed_without_fault_ = faults_ == faults_before_need_;
    }
    fail(command, {false, "no room on the device"});
}

/// Promise 4: read-ahead leaves room for the floor to be as high again as it has been.
void VirtualMover::check_reserve(Command const& command) {
    std::int64_t const may_rise = around_.situation.floor.may_rise_bytes();
    if (!memory_.fits(command.size_bytes + may_rise) && memory_.fits(command.size_bytes)) {
        memory_.broken("command " + to_text(command) + " eats the demand reserve");
    }
}

void VirtualMover::store(Command const& command) {
    memory_.store_given(command);
    check_advice(command);
    bool const fails = ++stores_ == how_.fail_store;
    lanes_.push({command, fails});
    result_.stored_bytes += command.size_bytes;
}

/// What is for the last resort leaves only where room is asked for.
void VirtualMover::check_advice(Command const& command) {
    std::vector<TraceValue> const& values = around_.trace.values;
    std::int64_t const in_trace = command.value.number % std::ssize(values);
    Advice const advice = around_.advice.advice_of(values[static_cast<std::size_t>(in_trace)].slot);
    if (advice == Advice::never ||
        (advice == Advice::last_resort && !around_.situation.making_room)) {
        memory_.broken("command " + to_text(command) + " stores what is to stay");
    }
}

void VirtualMover::run_work(Command const& command) {
    switch (command.work) {
        case SideWork::encode:
            memory_.encode_given(command);
            ++result_.encodes;
            lanes_.push({command, how_.raw_every > 0 && result_.encodes % how_.raw_every == 0});
            return;
        case SideWork::decode:
            memory_.decode_given(command);
            ++result_.decodes;
            lanes_.push({command, result_.decodes == how_.fail_decode});
            return;
        case SideWork::recompute:
            memory_.recompute_given(command);
            runs_.push_back(command);
            return;
        case SideWork::none:
            memory_.broken("command " + to_text(command) + " runs nothing");
            return;
    }
}

void VirtualMover::load(Command const& command) {
    memory_.load_given(command, fences_);
    bool const fails = ++loads_ == how_.fail_load;
    lanes_.push({command, fails});
    result_.loaded_bytes += command.size_bytes;
}

void VirtualMover::drop(Command const& command) {
    if (command.work == SideWork::recompute) {
        if (++drops_by_recipe_ == how_.no_recipe) {
            fail(command, {});
            return;
        }
        memory_.drop_by_recipe(command);
        fences_.set(command.id, FenceState::passed);
    } else {
        memory_.drop(command);
    }
    queued_.push_back(Finished{command.id});
}

std::optional<Command> VirtualMover::take_run() {
    while (!runs_.empty()) {
        Command const command = std::move(runs_.front());
        runs_.pop_front();
        if (fences_.of(command.after) == FenceState::failed) {
            memory_.recompute_ended(command, false);
            fail_with_fence(command);
            continue;
        }
        memory_.recompute_begins(command);
        return command;
    }
    return std::nullopt;
}

void VirtualMover::run_ended(Command const& command, bool ok) {
    memory_.recompute_ended(command, ok);
    if (!ok) {
        fail(command, {false, "injected fault"});
        return;
    }
    fences_.set(command.id, FenceState::passed);
    queued_.push_back(Finished{command.id});
}

void VirtualMover::wait(Command const& command) {
    std::int64_t const start_ns = lanes_.now_ns();
    for (CommandId const fence : command.after) {
        if (fences_.of(fence) == FenceState::unknown) {
            memory_.broken("command " + to_text(command) + " waits for what was never given");
            return;
        }
        if (!wait_for(command, fence)) {
            return;
        }
    }
    fences_.set(command.id, FenceState::passed);
    std::int64_t const waited_ns = lanes_.now_ns() - start_ns;
    (around_.situation.answering_need ? result_.stall_need_ns : result_.stall_room_ns) += waited_ns;
    if (how_.keep_timeline && waited_ns > 0) {
        result_.timeline.spans.push_back(
            {Lane::compute, "stall", command.value, 0, start_ns, lanes_.now_ns()}
        );
    }
    if (how_.settle_at_waits) {
        around_.settle();
    }
}

/// Until the fence has passed or failed. False: that will never be.
bool VirtualMover::wait_for(Command const& command, CommandId fence) {
    std::int64_t const start_ns = lanes_.now_ns();
    while (fences_.of(fence) == FenceState::pending) {
        std::optional<TransferEnd> const end = lanes_.advance(VirtualLanes::kForever);
        if (!end) {
            memory_.broken("command " + to_text(command) + " waits for ever");
            return false;
        }
        memory_.set_now(lanes_.now_ns());
        if (end->transfer.command.id == fence) {
            waited_for_return(end->transfer.command, lanes_.now_ns() - start_ns);
        }
        ended(*end);
    }
    return true;
}

/// Nothing to note where what compute waited for was no return.
void VirtualMover::waited_for_return(Command const& back, std::int64_t waited_ns) {
    bool const is_return = back.kind == CommandKind::load || back.work == SideWork::decode;
    if (is_return && around_.situation.answering_need) {
        std::vector<std::int64_t>& waits_ns = result_.return_waits_ns;
        waits_ns[static_cast<std::size_t>(back.value.number) % waits_ns.size()] += waited_ns;
    }
}

void VirtualMover::refuse(std::string const& why) {
    if (result_.ok) {
        result_.ok = false;
        result_.refusal = why;
    }
}

void VirtualMover::fail(Command const& command, Reason const& reason) {
    ++faults_;
    tier_faults_ += reason.of_code ? 0 : 1;
    fences_.set(command.id, FenceState::failed);
    queued_.push_back(Failed{command.id, reason.place_is_full, reason.why});
    reasons_[command.id] = reason;
    if (command.kind == CommandKind::bind && missing_bytes_ == 0) {
        refuse(
            "cannot bring back value " + std::to_string(command.value.number) + ": " + reason.why
        );
    }
}

/// It could not start: fails with the reason of the first fence that failed.
void VirtualMover::fail_with_fence(Command const& command) {
    for (CommandId const fence : command.after) {
        if (auto const found = reasons_.find(fence); found != reasons_.end()) {
            Reason const reason = found->second;
            fail(command, reason);
            return;
        }
    }
    fail(command, {false, "what it waited for failed"});
}

/// Books what ended on a lane and queues the event that reports it.
void VirtualMover::ended(TransferEnd const& end) {
    memory_.transfer_ended(end);
    Command const& command = end.transfer.command;
    if (how_.keep_timeline && end.started && end.end_ns > end.start_ns) {
        result_.timeline.spans.push_back(
            {command.lane,
             std::string(
                 command.kind == CommandKind::run ? name_of(command.work) : name_of(command.kind)
             ),
             command.value,
             command.size_bytes,
             end.start_ns,
             end.end_ns}
        );
    }
    if (end.ok) {
        queued_.push_back(Finished{command.id});
    } else if (end.started && command.kind == CommandKind::run) {
        bool const encodes = command.work == SideWork::encode;
        fail(command, {false, encodes ? "injected: not encodable" : "injected: corrupt", true});
    } else if (end.started) {
        fail(command, {how_.fault_is_full, "injected fault"});
    } else {
        fail_with_fence(command);
    }
    try_pending_drops(command.id);
}

void VirtualMover::wait_with_drop(Command const& command) {
    auto const first =
        std::find_if(command.after.begin(), command.after.end(), [&](CommandId fence) {
            return fences_.of(fence) == FenceState::pending;
        });
    pending_drops_[*first].push_back(command);
}

void VirtualMover::try_pending_drops(CommandId ended) {
    auto const waiting = pending_drops_.extract(ended);
    if (waiting.empty()) {
        return;
    }
    for (Command const& command : waiting.mapped()) {
        FenceState const state = fences_.of(command.after);
        if (state == FenceState::pending) {
            wait_with_drop(command);
        } else if (state == FenceState::failed) {
            fail_with_fence(command);
        } else {
            fences_.set(command.id, FenceState::passed);
            drop(command);
        }
    }
}

std::int64_t VirtualMover::compute(std::int64_t duration_ns) {
    std::int64_t const start_ns = now_ns();
    // What was not computed while bytes moved comes after it, and bytes may move then, too.
    for (std::int64_t left_ns = duration_ns; left_ns > 0;) {
        std::int64_t const moved_before_ns = lanes_.device_moves_ns();
        pass_time(now_ns() + left_ns);
        left_ns = static_cast<std::int64_t>(
            interference_ * static_cast<double>(lanes_.device_moves_ns() - moved_before_ns)
        );
    }
    return now_ns() - start_ns - duration_ns;
}

void VirtualMover::pass_time(std::int64_t until_ns) {
    while (std::optional<TransferEnd> const end = lanes_.advance(until_ns)) {
        memory_.set_now(lanes_.now_ns());
        ended(*end);
    }
    memory_.set_now(lanes_.now_ns());
}

}  // namespace spillway
