// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which values leave the device and which come back: ahead of time, and when an allocation fails.
#pragma once

#include "executor/executor_options.h"
#include "executor/ledger.h"
#include "executor/recompute.h"
#include "executor/reply.h"
#include "executor/transfers.h"
#include "executor/value_table.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace spillway {

/// Distances of values that the engine's order names start here: they are needed before all others,
/// whose distance is their age.
inline constexpr std::int64_t kOrderedFirst = std::numeric_limits<std::int64_t>::min() / 2;

/// Thread  not thread-safe; owned by one executor, which also owns what it is given
class Room {
  public:
    /// What it works with; all of it is the executor's.
    struct Parts {
        ExecutorOptions const& options;
        ValueTable& values;
        Ledger& ledger;
        Floor& floor;
        LeftBytes& left;
        Transfers& transfers;
        Recompute& recompute;
        Reply& reply;
    };
    explicit Room(Parts const& parts)
        : options_(parts.options),
          values_(parts.values),
          ledger_(parts.ledger),
          floor_(parts.floor),
          left_(parts.left),
          transfers_(parts.transfers),
          recompute_(parts.recompute),
          reply_(parts.reply) {}

    /// Starts stores, those needed last first, until what can be dropped covers the headroom, or
    /// what the steps before dropped.
    void store_ahead();
    /// In backward: brings back what is needed next, as far as the demand reserve stays free.
    /// `ordered`: only what the engine's order names.
    void read_ahead(bool ordered);
    /// Drops the value if the plan has it leave now, and it can.
    void leave_by_plan(ValueId id);
    /// Backward has the value: the plan's word that it is made again is kept.
    void settle_by_plan(ValueId id);
    /// Drops those of these whose time has come and whose recipes' sources are the graph's alone.
    void recompute_by_plan();
    /// The time of these to return has come: brings them back as far as the demand reserve stays
    /// free.
    void return_by_plan(std::vector<ValueId> const& ids);
    /// Builds the commands that free at least `missing_bytes`; returns what they free.
    [[nodiscard]] std::int64_t make_room(std::int64_t missing_bytes);
    /// Nothing eligible is left: one `raise`, and what was started for room stays done.
    void refuse(Short const& event, std::int64_t freed_bytes);
    /// As Executor::may_report_later, while nothing is away.
    [[nodiscard]] bool may_report_later(std::int64_t used_bytes, Advice advice) const;

  private:
    [[nodiscard]] std::int64_t store_ahead_bytes() const;
    [[nodiscard]] std::int64_t read_ahead_limit_bytes() const;
    [[nodiscard]] bool has_room_for_return(std::int64_t size_bytes);
    [[nodiscard]] bool is_enough_stored() const;
    void drop(ValueId id);
    [[nodiscard]] std::int64_t drop_from(std::int64_t missing_bytes);
    [[nodiscard]] bool is_delta() const { return options_.eviction == EvictionRule::delta; }
    [[nodiscard]] std::int64_t evict_by_delta(std::int64_t missing_bytes);
    [[nodiscard]] bool goes_by_recipe(ValueId id, bool before_moves);
    [[nodiscard]] std::int64_t drop_by_recipes(std::int64_t missing_bytes, bool before_moves);
    [[nodiscard]] std::int64_t drop_before_refusal(std::int64_t missing_bytes);
    void drop_by_recipe(ValueId id);
    [[nodiscard]] std::int64_t wait_for_orphans(std::int64_t missing_bytes);
    [[nodiscard]] std::int64_t store_and_drop(std::int64_t missing_bytes, bool last_resort);
    [[nodiscard]] PoolRefusal refusal_of(Pool pool) const;
    [[nodiscard]] bool has_nowhere_to_go() const;

    ExecutorOptions const& options_;
    ValueTable& values_;
    Ledger& ledger_;
    Floor& floor_;
    LeftBytes& left_;
    Transfers& transfers_;
    Recompute& recompute_;
    Reply& reply_;
    std::vector<ValueId> settled_;  ///< by the plan, maybe, since the last `recompute_by_plan`
};

}  // namespace spillway
