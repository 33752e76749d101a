// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Values that left without a copy, and the runs that make them again from others.
#pragma once

#include "base/ids.h"
#include "executor/event.h"
#include "executor/reply.h"
#include "executor/transfers.h"
#include "executor/value_table.h"

#include <cstdint>
#include <initializer_list>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace spillway {

/// Note [Recipes]
/// A value that goes by its recipe has no copy: it comes back by a run, which needs the recipe's
/// sources on the device. Meanwhile the driver keeps the sources (`Dropped` comes later), the
/// executor counts the value among their `dependents`, and they are needed when it is. A source may
/// leave, too, by a store or by a recipe of its own: then it comes back first. What a group of runs
/// needs is held: it does not leave before its run has ended, though a run allocates, and an
/// allocation may ask for room. One group runs at a time.
///
/// Thread  not thread-safe; owned by one executor, which also owns what it is given
class Recompute {
  public:
    /// `device_bytes`: the limit; 0: there is none.
    Recompute(
        ValueTable& values,
        Transfers& transfers,
        Reply& reply,
        std::int64_t device_bytes,
        bool moves
    )
        : values_(values),
          transfers_(transfers),
          reply_(reply),
          device_bytes_(device_bytes),
          moves_(moves) {}

    void learn(Made const& event);
    /// Whether the value may go by its recipe now: only the saved graph holds its sources, none of
    /// them loses anything on its way, and no chain of recipes gets long or large.
    [[nodiscard]] bool may_drop(ValueId id) const;
    /// As may_drop, where the alternative is that an allocation fails: the chain may be long, and
    /// half of the limit may come back at once. True of all that may_drop is true of.
    [[nodiscard]] bool may_drop_before_refusal(ValueId id) const;
    /// Where nothing moves: a value made of it that is no smaller can go only while this one stays.
    [[nodiscard]] bool frees_more_by_staying(ValueId id, bool before_refusal) const;
    /// Brings up to date which values are ready (ValueTable::ready): those of which that may have
    /// changed are looked at, and no others.
    void look_again();
    void drop(ValueId id);

    /// What has to be done before values are on the device again, each after what it needs.
    struct Group {
        std::vector<ValueId> there;  ///< on the device, or on their way
        std::vector<ValueId> loads;
        std::vector<ValueId> runs;
        std::int64_t size_bytes = 0;       ///< device bytes that loads and runs take and keep
        std::int64_t transient_bytes = 0;  ///< and beside them, for a while
    };
    [[nodiscard]] Group group_of(std::vector<ValueId> const& wanted) const;
    void hold(Group const& group);
    /// It cannot be brought back now: nothing is held for it.
    void give_up(Group const& group);
    /// Loads, binds and runs of a group that is held; each run lets go of what it needed.
    void bring_back(Group const& group);
    /// The last run that has not ended; invalid: there is none.
    [[nodiscard]] CommandId under_way() const { return last_run_; }

    /// The value is needed, and so are the sources of what is away.
    void order_sources(ValueId id);
    void order_all_sources();
    /// Nothing refers to the value any more. True: it ends with its run, which is under way.
    [[nodiscard]] bool forget(ValueId id, Value& value);

    /// False: the command is none of a recipe's.
    [[nodiscard]] bool ended(CommandId command);
    [[nodiscard]] bool failed(CommandId command);

  private:
    void add_user(Value& source, ValueId user) const;
    void look_again_around(ValueId id);
    void add_to(Group& group, std::unordered_set<ValueId>& seen, ValueId id) const;
    [[nodiscard]] bool calls_fit(ValueId id, std::int64_t most_calls) const;
    [[nodiscard]] bool is_in_a_circle(ValueId id) const;
    void let_go(ValueId id);
    void unlink(ValueId id, Value const& value);
    void run_is_over(CommandId command, ValueId id, bool well);
    [[nodiscard]] bool is_sound(RecipeShape const& recipe) const;
    /// By value: operators in a row. A choice looks at a value once, however many chains meet
    /// there.
    using Chains = std::unordered_map<ValueId, std::int64_t>;
    [[nodiscard]] std::int64_t calls_below(ValueId id, ValueId top, Chains& known) const;
    [[nodiscard]] std::int64_t calls_above(ValueId id, Chains& known) const;
    using Going = std::initializer_list<ValueId>;
    [[nodiscard]] bool is_small(ValueId wanted, Going const& going, std::int64_t most_bytes) const;
    [[nodiscard]] bool all_above_are_small(ValueId going, std::int64_t most_bytes) const;
    [[nodiscard]] bool is_small_once_gone(ValueId id, std::int64_t share) const;
    [[nodiscard]] std::int64_t share_of(Value const& value) const;
    void run(ValueId id);

    ValueTable& values_;
    Transfers& transfers_;
    Reply& reply_;
    mutable std::int64_t walks_ = 0;  ///< along recipes, so far
    std::unordered_map<CommandId, ValueId> drops_;
    std::unordered_map<CommandId, ValueId> runs_;
    CommandId last_run_;
    std::int64_t const device_bytes_;
    bool const moves_;  ///< there is a pool to move to
};

}  // namespace spillway
