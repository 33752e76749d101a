// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The executor: a pure state machine. Program events choose, completions only open gates, so the
// commands of a run are a function of its event log. No clock, no thread, no I/O.
#pragma once

#include "executor/advice.h"
#include "executor/chooser.h"
#include "executor/command.h"
#include "executor/event.h"
#include "executor/executor_options.h"
#include "executor/ledger.h"
#include "executor/plan_times.h"
#include "executor/recompute.h"
#include "executor/reply.h"
#include "executor/room.h"
#include "executor/transfers.h"
#include "executor/value_table.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace spillway {

/// What the ledger holds now, for reports and tests.
struct LedgerView {
    std::int64_t held_bytes = 0;  ///< device bytes of saved values, returning ones included
    std::int64_t leaving_bytes =
        0;  ///< of these: stored or being stored, so that a drop frees them
    std::array<std::int64_t, kPools> reserved_bytes{};  ///< away pools
    std::int64_t live_values = 0;

    bool operator==(LedgerView const&) const = default;
};

/// Note [What the executor promises]
///  1. A `need` is answered by commands after which the value is on the device, or by `raise`.
///  2. A `short` is answered by commands that free at least the missing bytes, or by `raise`.
///  3. A value's device bytes are dropped only after its store's fence; its block is released only
///     after the last command that uses it has ended and the value was `Dropped`, or is
///     `AboutToWrite`: then it leaves again only by another store.
///  4. Optional loads never eat the demand reserve (the largest coming floor seen so far).
///  5. Under any plan, also an empty or a random one, all of these hold. A value that the plan has
///     leave goes at the save that the plan names (or where it becomes unshared, if that is later),
///     after its store's fence; one that it has return begins to at the need that the plan names,
///     where there is room. Both also below the budget.
///  6. A value that went by its recipe comes back by a `run` after all that it needs is on the
///     device, and nothing of that leaves before the run has ended. A `need` in the middle of
///     another's runs is answered by a `wait` for them, and is asked again.
///  7. A value with a code is encoded before its store and decoded after its load; "load" in
///     1 and 3 is then the decode. A value whose encode failed leaves as it is.
///
/// Thread  not thread-safe: the session's one mutex guards it
/// Order   replies are executed in order; commands of different lanes overlap unless `after` says
///         otherwise
class Executor {
  public:
    explicit Executor(ExecutorOptions const& options, ExecutorState const& state = {});
    ~Executor() = default;
    Executor(Executor const&) = delete;
    Executor& operator=(Executor const&) = delete;

    /// Takes one event and returns the commands that answer it, in order.
    [[nodiscard]] std::vector<Command> on(Event const& event);

    [[nodiscard]] LedgerView ledger() const;
    /// Device bytes of the values that were saved from `first` on; looks at all values.
    [[nodiscard]] std::int64_t held_bytes_from(ValueId first) const {
        return values_.held_bytes_from(first);
    }
    /// The most device bytes that a reply granted: those in use, as the event reported, less what
    /// the reply drops, plus what it lets return or be allocated.
    [[nodiscard]] std::int64_t granted_peak_bytes() const { return granted_peak_bytes_; }
    /// The most bytes at once of values that had gone and a recipe makes again.
    [[nodiscard]] std::int64_t gone_by_recipe_peak_bytes() const {
        return values_.gone_by_recipe_peak_bytes();
    }
    /// What a fresh executor needs to go on from here; nothing while a value lives or something is
    /// in flight.
    [[nodiscard]] std::optional<ExecutorState> state() const;
    /// No value has a copy away, not even one under way.
    [[nodiscard]] bool all_on_device() const {
        return ledger_.is_empty() && values_.by_recipe().empty();
    }
    /// Whether a save with that advice, after which the device holds `used_bytes`, changes no reply
    /// (but how much later steps store ahead) and so may be reported later, or never if it is
    /// dropped first. True while nothing is away, no store would start, no value waits to leave at
    /// once, no plan was given and the rule does not count saves.
    [[nodiscard]] bool may_report_later(std::int64_t used_bytes, Advice advice = Advice::when_asked)
        const {
        return !plan_ && options_.eviction == EvictionRule::next_use &&
               room_.may_report_later(used_bytes, advice);
    }
    [[nodiscard]] ExecutorOptions const& options() const { return options_; }

  private:
    // One overload an event.
    void take(Begin const& event);
    void take(End const& event);
    void take(PhaseBegan const& event);
    void take(Point const& event);
    void take(Saved const& event);
    void take(Made const& event) { recompute_.learn(event); }
    void take(Need const& event);
    void take(AboutToWrite const& event);
    void take(BackwardOrder const& event);
    void take(Short const& event);
    void take(PlanGiven const& event);
    void take(Finished const& event);
    void take(Failed const& event);
    void take(Dropped const& event);

    void take_plan(Plan plan);
    void leave_by_plan(ValueId id);
    [[nodiscard]] bool return_group(std::vector<ValueId> const& wanted);
    void see(Usage const& usage);
    /// By how much the device would be over its limit with `more_bytes`.
    [[nodiscard]] std::int64_t missing_bytes(std::int64_t more_bytes) const;

    ExecutorOptions const options_;
    std::unique_ptr<Chooser> chooser_;
    ValueTable values_;
    Ledger ledger_;
    Floor floor_;
    LeftBytes left_;
    Reply reply_;
    Transfers transfers_;
    Recompute recompute_;
    Room room_;
    std::int64_t held_before_bytes_ = 0;  ///< held when the last program event was answered
    std::int64_t allowed_bytes_ = 0;      ///< the allocation that this reply lets happen
    std::int64_t granted_peak_bytes_ = 0;
    bool in_backward_ = false;
    bool ordered_ = false;  ///< the engine reported its order for this backward
    PlanTimes times_;
    std::optional<Plan> plan_;
};

}  // namespace spillway
