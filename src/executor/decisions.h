// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The executor's inside: one method an event, building a flat reply. See Note [What the executor
// promises] in executor.h.
#pragma once

#include "executor/chooser.h"
#include "executor/executor.h"
#include "executor/ledger.h"
#include "executor/value_table.h"

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace spillway {

/// Distances of values that the engine's order names start here: they are needed before all others,
/// whose distance is their age.
inline constexpr std::int64_t kOrderedFirst = std::numeric_limits<std::int64_t>::min() / 2;
inline constexpr std::int64_t kOrderedEnd = kOrderedFirst / 2;

class Executor::Impl {
  public:
    Impl(ExecutorOptions const& options, ExecutorState const& state);

    std::vector<Command> answer(Event const& event);
    [[nodiscard]] LedgerView ledger() const;
    [[nodiscard]] std::optional<ExecutorState> state() const;
    [[nodiscard]] bool may_be_told_later(std::int64_t used_bytes, Advice advice) const;
    [[nodiscard]] std::int64_t granted_peak_bytes() const { return granted_peak_bytes_; }
    [[nodiscard]] bool all_on_device() const {
        return ledger_.used_bytes() == std::array<std::int64_t, kPools>{};
    }

    ExecutorOptions const options_;

  private:
    // One overload an event.
    void take(Begin const& event);
    void take(End const& event);
    void take(PhaseBegan const& event);
    void take(Point const& event);
    void take(Saved const& event);
    void take(Need const& event);
    void take(AboutToWrite const& event);
    void take(BackwardOrder const& event);
    void take(Short const& event);
    void take(PlanGiven const& event);
    void take(Finished const& event);
    void take(Failed const& event);
    void take(Dropped const& event);

    // What is in flight, by fence.
    enum class Work : std::uint8_t { encode, store, load, drop, reserve_away };
    struct Flight {
        Work work{};
        ValueId value;
        CommandId reserve{};     ///< of a store: the command that set its room aside
        Value* found = nullptr;  ///< the value, while it lives; filled by `end_flight`
    };
    [[nodiscard]] Flight end_flight(CommandId command);

    void see(Usage const& usage);
    [[nodiscard]] std::int64_t store_ahead_bytes() const;
    void store_ahead();
    [[nodiscard]] bool start_store(ValueId id, bool anywhere);
    void store_in(Pool pool, ValueId id, Value& value);
    void start_load(ValueId id, Value& value, bool optional);
    void read_ahead();
    void drop(ValueId id);
    void give_up_target(ValueId id, Value const& value);
    [[nodiscard]] std::int64_t make_room(std::int64_t missing_bytes);
    [[nodiscard]] std::int64_t drop_from(std::int64_t missing_bytes);
    [[nodiscard]] std::int64_t wait_for_orphans(std::int64_t missing_bytes);
    [[nodiscard]] std::int64_t store_and_drop(std::int64_t missing_bytes, bool last_resort);
    void release_block(Value const& value);
    void leave_copy_behind(ValueId id, Value& value);
    void end_orphan(ValueId id, Value& value);
    [[nodiscard]] PoolRefusal refusal_of(Pool pool);
    void refuse(Short const& event, std::int64_t freed_bytes);
    void encode_failed(ValueId id, Value& value, Failed const& event);
    void store_failed(ValueId id, Value& value, Failed const& event);
    void a_load_ended(CommandId fence, Flight const& flight, bool well);
    void load_ended(ValueId id, Value& value, bool well);
    void away_refused(Value const& value, Failed const& event);

    Command& say(CommandKind kind, Lane lane, ValueId value = {});
    CommandId say_run(
        SideWork work, ValueId value, BlockId block, std::int64_t size_bytes, CommandId after
    );
    void say_wait(CommandId fence);

    std::unique_ptr<Chooser> chooser_;
    ValueTable values_;
    Ledger ledger_;
    Floor floor_;
    std::unordered_map<CommandId, Flight> flights_;
    std::set<Pool> told_full_;
    std::map<Pool, std::string> refusals_;  ///< why a place takes no more in this step
    std::vector<Command> reply_;
    std::int64_t held_before_bytes_ = 0;  ///< held when the last program event was answered
    std::int64_t used_bytes_ = 0;         ///< device bytes now, as this reply will leave them
    std::int64_t allowed_bytes_ = 0;      ///< the allocation that this reply lets happen
    std::int64_t granted_peak_bytes_ = 0;
    std::int64_t next_command_ = 0;
    std::int64_t next_block_ = 0;
    std::int64_t copies_left_behind_ = 0;
    bool in_backward_ = false;
    bool ordered_ = false;  ///< the engine told its order for this backward
    bool plan_given_ = false;
};

}  // namespace spillway
