// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One simulated run: the program that makes events, and the carrying out of commands.
#pragma once

#include "executor/event_log.h"
#include "executor/executor.h"
#include "simulator/lanes.h"
#include "simulator/memory.h"
#include "simulator/simulator.h"

#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace spillway {

/// Thread  not thread-safe; used once
class SimulatorRun {
  public:
    SimulatorRun(
        Trace const& trace,
        Machine const& machine,
        ExecutorOptions const& options,
        SimulatorOptions const& how
    );

    [[nodiscard]] Result<SimulationResult> run(Plan const* plan);

  private:
    /// Why a command failed.
    struct Reason {
        bool place_is_full = false;
        std::string why{};
        bool of_code = false;  ///< an encode or decode began it
    };

    // The program.
    void run_step(std::int64_t step);
    void run_point(TracePoint const& point);
    void enter_phase(Phase phase);
    void tell_order();
    [[nodiscard]] bool need(ValueId value);
    void ask_need(ValueId value);
    [[nodiscard]] bool set_floor(std::int64_t floor_bytes);
    [[nodiscard]] bool save(ValueId value, TraceValue const& what);
    [[nodiscard]] RuleAnswer rule_of(Slot const& slot) const;
    [[nodiscard]] Advice advice_of(Slot const& slot) const;
    void compute(std::int64_t duration_ns);
    void end_point(TracePoint const& point);
    void drop_rest();
    void drain();
    [[nodiscard]] bool going() const { return result_.ok && memory_.verdict().ok(); }
    [[nodiscard]] Usage usage();
    /// The id of a trace's value in this step.
    [[nodiscard]] ValueId id_of(ValueId in_trace) const;

    /// Makes room for an allocation, as a capped allocator does. False: refused.
    [[nodiscard]] bool make_room(std::int64_t size_bytes);
    [[nodiscard]] bool request(std::int64_t size_bytes);
    void check_short(std::int64_t size_bytes, std::int64_t faults_before);
    void check_refusal(std::int64_t size_bytes);
    void check_ledger();

    // Events.
    void record(LogEntry entry);
    void deliver();
    void ask(Event const& event);
    void tell(Event const& event);

    // Commands.
    void execute(Command const& command);
    void execute_now(Command const& command);
    void reserve(Command const& command);
    void check_reserve(Command const& command);
    void store(Command const& command);
    void check_advice(Command const& command);
    void run_work(Command const& command);
    void load(Command const& command);
    void drop(Command const& command);
    void wait(Command const& command);
    void refuse(std::string const& why);
    void fail(Command const& command, Reason const& reason);
    void fail_with_fence(Command const& command);
    void ended(TransferEnd const& end);
    void try_pending_drops();
    void pass_time(std::int64_t until_ns);

    Trace const& trace_;
    SimulatorOptions const how_;
    ExecutorOptions const options_;
    Executor executor_;
    Fences fences_;
    VirtualLanes lanes_;
    VirtualMemory memory_;
    std::mt19937_64 random_;
    SimulationResult result_;

    std::unordered_map<CommandId, Reason> reasons_;  ///< of the commands that failed
    std::deque<Event> queued_;
    std::vector<Command> pending_drops_;
    Plan const* plan_ = nullptr;
    std::vector<bool> live_;  ///< by place in the trace
    std::size_t at_point_ = 0;
    std::int64_t first_value_ = 0;  ///< the id of this step's value 0
    std::int64_t floor_bytes_ = 0;
    std::int64_t highest_floor_bytes_ = 0;       ///< in this step, as the executor was told
    std::int64_t last_highest_floor_bytes_ = 0;  ///< in the step before
    bool in_phase_ = false;
    Phase phase_ = Phase::setup;
    ValueId needed_;  ///< answered now
    bool answering_need_ = false;
    bool making_room_ = false;        ///< a need or short is answered now
    std::int64_t missing_bytes_ = 0;  ///< what a returning value found no room for
    bool missed_without_fault_ = false;
    std::int64_t faults_before_need_ = 0;
    std::int64_t room_before_short_bytes_ = 0;
    std::int64_t stores_ = 0;
    std::int64_t loads_ = 0;
    std::int64_t needs_ = 0;
    std::int64_t faults_ = 0;       ///< commands that failed
    std::int64_t tier_faults_ = 0;  ///< of these: not by a code, so that a pool may have closed
};

}  // namespace spillway
