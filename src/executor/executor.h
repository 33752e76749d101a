// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The executor: a pure state machine. Program events choose, completions only open gates, so the
// commands of a run are a function of its event log. No clock, no thread, no I/O.
#pragma once

#include "base/result.h"
#include "executor/advice.h"
#include "executor/command.h"
#include "executor/event.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

enum class ChooserKind : std::uint8_t {
    online,    ///< values leave when the budget asks, those needed last first; needs no plan
    keep_all,  ///< moves nothing, ever
    planned,   ///< reads the plan; what the plan does not know goes to `online`
};

[[nodiscard]] std::string_view name_of(ChooserKind kind);

/// Budgets in bytes. A device limit of 0 is no limit; an away pool of 0 does not exist.
struct ExecutorOptions {
    ChooserKind chooser = ChooserKind::online;
    std::int64_t device_bytes = 0;
    std::int64_t host_bytes = 0;
    std::int64_t nvme_bytes = 0;
    std::int64_t nvme_value_bytes = 0;  ///< the largest value that may go to NVMe; 0: any may

    bool operator==(ExecutorOptions const&) const = default;
};

/// All that an executor knows between steps, when no value lives and nothing is in flight: where a
/// recording that does not begin with the session begins.
struct ExecutorState {
    std::int64_t next_command = 0;
    std::int64_t next_block = 0;
    std::int64_t floor_bytes = 0;            ///< device bytes that no chooser controls, now
    std::int64_t floor_peak_bytes = 0;       ///< the highest in this step
    std::int64_t last_floor_peak_bytes = 0;  ///< in the step before
    bool in_backward = false;
    std::vector<Pool> reported_full;  ///< pools of which the user was told that they take no more

    bool operator==(ExecutorState const&) const = default;
};

/// What the ledger says now, for reports and tests.
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
///  5. Under any plan, also an empty or a random one, 1 to 4 hold.
///  6. A value with a code is encoded before its store and decoded after its load; where 1 and 3
///     say load, that is the decode. After an encode that failed it leaves as it is.
///
/// Thread  not thread-safe: the session's one mutex guards it
/// Order   replies are executed in order; commands of different lanes overlap unless `after` says
///         otherwise
class Executor {
  public:
    explicit Executor(ExecutorOptions const& options, ExecutorState const& state = {});
    ~Executor();
    Executor(Executor const&) = delete;
    Executor& operator=(Executor const&) = delete;

    /// Takes one event and returns the commands that answer it, in order.
    [[nodiscard]] std::vector<Command> on(Event const& event);

    [[nodiscard]] LedgerView ledger() const;
    /// The most device bytes that an answer granted: what the event told to be in use, less what
    /// the answer drops, more what it lets return or be allocated.
    [[nodiscard]] std::int64_t granted_peak_bytes() const;
    /// What a fresh executor needs to go on from here; nothing while a value lives, something is in
    /// flight, or a plan was given.
    [[nodiscard]] std::optional<ExecutorState> state() const;
    /// No value has a copy away, not even one under way.
    [[nodiscard]] bool all_on_device() const;
    /// A save of that advice after which the device holds `used_bytes` changes no answer: it may be
    /// told later, or never if it is dropped before. True while nothing is away, no store would
    /// start and no value waits to leave at once.
    [[nodiscard]] bool may_report_later(std::int64_t used_bytes, Advice advice = Advice::when_asked)
        const;
    [[nodiscard]] ExecutorOptions const& options() const;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace spillway
