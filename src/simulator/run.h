// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One simulated run: the program, which makes events point by point, as a driver would, and has the
// answers checked (promises.h).
#pragma once

#include "executor/event_log.h"
#include "executor/executor.h"
#include "simulator/memory.h"
#include "simulator/promises.h"
#include "simulator/save_advice.h"
#include "simulator/simulator.h"
#include "simulator/situation.h"
#include "simulator/virtual_mover.h"

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace spillway {

/// Thread  not thread-safe; used once
class SimulatorRun {
  public:
    SimulatorRun(
        Trace const& trace,
        Machine const& machine,
        ExecutorOptions const& options,
        Plan const* plan,
        SimulatorOptions const& how
    );
    SimulatorRun(SimulatorRun const&) = delete;
    SimulatorRun& operator=(SimulatorRun const&) = delete;

    [[nodiscard]] Result<SimulationResult> run();

  private:
    // The program.
    void run_step(std::int64_t step);
    void run_point(TracePoint const& point);
    void enter_phase(Phase phase);
    void report_order();
    [[nodiscard]] bool need(ValueId value);
    void ask_need(ValueId value);
    void write(ValueId value);
    void carry_out_runs();
    [[nodiscard]] bool carry_out(Command const& run);
    void drop(ValueId value);
    void tell_recipe(ValueId in_trace);
    [[nodiscard]] bool set_floor(std::int64_t floor_bytes);
    [[nodiscard]] bool save(ValueId value, TraceValue const& what);
    void compute(std::int64_t duration_ns);
    void end_point(TracePoint const& point);
    void drop_rest();
    void drain();
    [[nodiscard]] bool going() const { return result_.ok && memory_.verdict().ok(); }
    [[nodiscard]] Usage usage();
    /// The program's time so far, with its waits.
    [[nodiscard]] std::int64_t program_ns() const;
    /// The id of a trace's value in this step.
    [[nodiscard]] ValueId id_of(ValueId in_trace) const;
    [[nodiscard]] std::int64_t move_ns(std::int64_t size_bytes) const;

    /// Makes room for an allocation, as a capped allocator does. False: refused.
    [[nodiscard]] bool make_room(std::int64_t size_bytes);
    [[nodiscard]] bool request(std::int64_t size_bytes);

    // Events.
    void record(LogEntry entry);
    void deliver();
    void ask(Event const& event);
    void handle(Event const& event);

    Trace const& trace_;
    Machine const& machine_;
    SimulatorOptions const how_;
    ExecutorOptions const options_;
    Plan const* const plan_;
    SaveAdvice const advice_;
    Situation situation_;
    Executor executor_;
    VirtualMemory memory_;
    SimulationResult result_;
    VirtualMover mover_;
    Promises promises_;
    std::mt19937_64 random_;

    std::vector<bool> live_;  ///< by place in the trace
    std::size_t at_point_ = 0;
    std::int64_t first_value_ = 0;  ///< the id of this step's value 0
    bool in_phase_ = false;
    Phase phase_ = Phase::setup;
    std::int64_t needs_ = 0;
    std::int64_t runs_ = 0;
};

}  // namespace spillway
