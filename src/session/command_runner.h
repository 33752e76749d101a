// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Carries the executor's commands out, on the mover and the driver: one method a command. What
// ended or failed becomes a queued event.
#pragma once

#include "base/mutex.h"
#include "base/option.h"
#include "base/result.h"
#include "executor/command.h"
#include "memory/device.h"
#include "mover/mover.h"
#include "session/accounting.h"
#include "session/driver.h"
#include "session/encodings.h"
#include "session/event_queue.h"
#include "session/moving.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace spillway {

/// What a runner works with; all of it outlives the runner.
struct RunnerParts {
    Device& device;
    Mover& mover;
    Driver& driver;
    Encodings& encodings;
    Accounting& accounting;
    EventQueue& events;
};

/// Thread  whoever has the loop's turn; `returning_bytes` from any. No lock is held while a command
///         runs
class CommandRunner {
  public:
    /// `face`: whose names of options words use. `settle` is called after each wait of the host: it
    /// carries out what ended meanwhile.
    CommandRunner(Face face, RunnerParts const& parts, std::function<void()> settle);

    /// All of a reply, in order, also after one has failed.
    ///
    /// Fails   the first error that must reach the program: of a `bind` or a `raise`
    [[nodiscard]] Result<void> run(std::vector<Command> const& commands);
    /// Queues what the mover ended. The mover lets go of tensors here, and may start a transfer.
    void collect();
    [[nodiscard]] bool has_failed(CommandId command) const { return failed_.count(command) != 0; }
    /// What failed in the last step is not asked for any more.
    void begin_step() { failed_.clear(); }

    // Runs of recipes, which whoever asked carries out, without the loop's turn.
    [[nodiscard]] bool has_runs() const { return !runs_.empty() || waited_.valid(); }
    [[nodiscard]] std::vector<Command> take_runs() { return std::exchange(runs_, {}); }
    void run_ended(Command const& run, Result<void> const& outcome);
    /// What was asked for and not taken ends.
    void cancel_runs();
    /// A run of another thread that has to end first; invalid: there is none.
    [[nodiscard]] CommandId take_waited() { return std::exchange(waited_, {}); }
    /// Without the turn.
    void wait_for_run(CommandId run);

    /// Device room that was reserved for values that never came back is released.
    void close();

    /// Device bytes of values that are on their way back, before anybody needs them.
    [[nodiscard]] std::int64_t returning_bytes() const {
        return returning_bytes_.load(std::memory_order_relaxed);
    }

  private:
    /// The device bytes of a value on its way back.
    struct Returning {
        void* memory = nullptr;
        StreamId stream;
        std::int64_t size_bytes = 0;
    };

    [[nodiscard]] Result<void> run(Command const& command);
    [[nodiscard]] Error const* failure_of(Command const& command) const;
    void fail(Command const& command, Error const& error);
    [[nodiscard]] Error refuse(Command const& command);
    void reserve(Command const& command);
    void release(Command const& command);
    void store(Command const& command);
    void load(Command const& command);
    void side_work(Command const& command);
    void recompute(Command const& command);
    void encode(Command const& command);
    void decode(Command const& command);
    void bind(Command const& command);
    void drop(Command const& command);
    void wait(Command const& command);
    [[nodiscard]] void* take_returning(ValueId value);
    [[nodiscard]] HeldBytes target_of(Command const& command) const;
    void begins(Command const& command, std::int64_t size_bytes);
    [[nodiscard]] Failed failed(Completion const& ended, std::optional<Moving> const& moved);

    Face const face_;
    Device& device_;
    Mover& mover_;
    Driver& driver_;
    Encodings& encodings_;
    Accounting& accounting_;
    EventQueue& events_;
    std::function<void()> const settle_;
    std::unordered_map<CommandId, Error> failed_;
    std::unordered_map<CommandId, Moving> in_flight_;
    std::unordered_map<ValueId, Returning> returning_;
    std::atomic<std::int64_t> returning_bytes_ = 0;  ///< of those
    std::vector<Command> runs_;                      ///< not taken yet
    CommandId waited_;
    Mutex under_way_mutex_;
    ConditionVariable run_ended_;
    /// Runs that have not ended.
    std::unordered_set<CommandId> under_way_ SPILLWAY_GUARDED_BY(under_way_mutex_);
};

}  // namespace spillway
