// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Carries commands out in virtual time: what the mover and the driver do in a real run. Faults that
// were asked for happen here, and a command that breaks a promise is remembered by the memory.
#pragma once

#include "executor/command.h"
#include "executor/event.h"
#include "machine/machine.h"
#include "simulator/lanes.h"
#include "simulator/memory.h"
#include "simulator/save_advice.h"
#include "simulator/simulator.h"
#include "simulator/situation.h"
#include "trace/trace.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace spillway {

/// What carrying out looks at and changes outside of itself; all of it outlives the mover.
struct VirtualMoverSurroundings {
    Trace const& trace;
    SaveAdvice const& advice;
    Situation const& situation;
    VirtualMemory& memory;
    SimulationResult& result;      ///< bytes, counts, stalls, spans and the refusal
    std::function<void()> settle;  ///< hands what ended to the executor; called when a wait ends
};

/// Thread  not thread-safe
class VirtualMover {
  public:
    /// Both outlive it, too.
    VirtualMover(
        Machine const& machine, SimulatorOptions const& how, VirtualMoverSurroundings around
    );

    VirtualMover(VirtualMover const&) = delete;
    VirtualMover& operator=(VirtualMover const&) = delete;

    /// A command that waits on the host ends before it returns; a store, load or run goes to its
    /// lane; a drop whose fences are pending goes when they have passed; all others are done.
    void execute(Command const& command);
    /// The program computes until then; lanes go on beside it.
    void pass_time(std::int64_t until_ns);
    /// The program computes what takes so long alone: longer while bytes move to or from the
    /// device, by the machine's interference. Returns by how much.
    std::int64_t compute(std::int64_t duration_ns);
    /// Everything in flight ends.
    void finish_all() { pass_time(VirtualLanes::kForever); }
    [[nodiscard]] std::int64_t now_ns() const { return lanes_.now_ns(); }

    /// Queues an event, which the executor gets when it is next called.
    void queue(Event event) { queued_.push_back(std::move(event)); }
    /// The first of the queued events, of the program's or of commands that ended.
    [[nodiscard]] std::optional<Event> take_queued();
    [[nodiscard]] bool has_queued() const { return !queued_.empty(); }
    /// No event and no drop is to come but from a lane.
    [[nodiscard]] bool is_quiet() const { return queued_.empty() && pending_drops_.empty(); }

    /// The next run of a recipe, which whoever computes carries out. None: there is none, or those
    /// that were left could not start.
    [[nodiscard]] std::optional<Command> take_run();
    void run_ended(Command const& command, bool ok);

    /// From here on room is looked for that a returning value does not find.
    void begin_need();
    /// What it needed; 0: it found room.
    [[nodiscard]] std::int64_t missing_bytes() const { return missing_bytes_; }
    /// No command had failed before, so that there should have been some.
    [[nodiscard]] bool missed_without_fault() const { return missed_without_fault_; }

    /// Commands that failed; of these, not by a code, so that a pool may have closed.
    [[nodiscard]] std::int64_t faults() const { return faults_; }
    [[nodiscard]] std::int64_t tier_faults() const { return tier_faults_; }

  private:
    /// Why a command failed.
    struct Reason {
        bool place_is_full = false;
        std::string why{};
        bool of_code = false;  ///< an encode or decode began it
    };

    void execute_now(Command const& command);
    void reserve(Command const& command);
    void check_reserve(Command const& command);
    void store(Command const& command);
    void check_advice(Command const& command);
    void run_work(Command const& command);
    void load(Command const& command);
    void drop(Command const& command);
    void wait(Command const& command);
    [[nodiscard]] bool wait_for(Command const& command, CommandId fence);
    void waited_for_return(Command const& back, std::int64_t waited_ns);
    void refuse(std::string const& why);
    void fail(Command const& command, Reason const& reason);
    void fail_with_fence(Command const& command);
    void ended(TransferEnd const& end);
    void wait_with_drop(Command const& command);
    void try_pending_drops(CommandId ended);

    SimulatorOptions const& how_;
    VirtualMoverSurroundings const around_;
    VirtualMemory& memory_;
    SimulationResult& result_;
    double const interference_;
    Fences fences_;
    VirtualLanes lanes_;
    std::unordered_map<CommandId, Reason> reasons_;  ///< of the commands that failed
    std::deque<Event> queued_;
    /// By the first fence that each waits for.
    std::unordered_map<CommandId, std::vector<Command>> pending_drops_;
    std::deque<Command> runs_;
    std::int64_t drops_by_recipe_ = 0;
    std::int64_t missing_bytes_ = 0;
    bool missed_without_fault_ = false;
    std::int64_t faults_before_need_ = 0;
    std::int64_t stores_ = 0;
    std::int64_t loads_ = 0;
    std::int64_t faults_ = 0;
    std::int64_t tier_faults_ = 0;
};

}  // namespace spillway
