// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What is under way between the device and the away pools: stores, returns, drops, and what becomes
// of a value when one of them ends or fails. Which values move is decided elsewhere (room.h).
#pragma once

#include "base/ids.h"
#include "base/place.h"
#include "executor/event.h"
#include "executor/ledger.h"
#include "executor/reply.h"
#include "executor/value_table.h"

#include <cstdint>
#include <map>
#include <unordered_map>

namespace spillway {

/// Values, ids and commands follow Note [What the executor promises].
///
/// Thread  not thread-safe; owned by one executor, which also owns what it is given
class Transfers {
  public:
    Transfers(ValueTable& values, Ledger& ledger, Reply& reply, std::int64_t next_block)
        : values_(values), ledger_(ledger), reply_(reply), next_block_(next_block) {}

    /// Reserves room in the first pool that has it and starts the store. False when none has.
    /// `anywhere`: pools before the one that was chosen follow as the last.
    [[nodiscard]] bool start_store(ValueId id, bool anywhere);
    /// Starts the return of a value that is away. `optional`: it is read ahead.
    void bring_back(ValueId id, Value& value, bool optional);
    /// What comes back is the value's storage from here on, and the program has it.
    void bind(ValueId id, Value& value);
    /// Lets go of the device bytes of a value that has a copy: [wait, drop], or those of a value
    /// on its way back.
    void drop(ValueId id);
    /// An orphan's device bytes are free after the copy that uses them: [wait], or [wait, release].
    void wait_for_orphan(ValueId id);
    /// The program may write the value: its copy, if there is one, is from now on nobody's.
    void leave_copy_behind(ValueId id, Value& value);
    /// Nothing refers to the value any more: it ends now, or with the last copy in flight.
    void forget(ValueId id, Value& value);

    void ended(CommandId command);
    void failed(Failed const& event);

    /// Device bytes now, as the present reply will leave them.
    [[nodiscard]] std::int64_t used_bytes() const { return used_bytes_; }
    void see_used(std::int64_t used_bytes) { used_bytes_ = used_bytes; }

    [[nodiscard]] bool is_idle() const { return flights_.empty(); }
    [[nodiscard]] std::int64_t copies_left_behind() const {
        return static_cast<std::int64_t>(left_behind_.size());
    }
    [[nodiscard]] std::int64_t next_block() const { return next_block_; }

  private:
    enum class Work : std::uint8_t { encode, store, load, drop, reserve_away };
    /// What is in flight, by fence.
    struct Flight {
        Work work{};
        ValueId value;
        CommandId reserve{};  ///< of a store: the command that set its room aside
        BlockId behind{};     ///< it is of this copy, which was left behind, and no value's
    };
    /// A copy whose value was written since: it ends when nothing in flight uses it.
    struct LeftBehind {
        Copy copy;
        bool is_gone = false;  ///< its store failed
        Loads loads;
    };

    [[nodiscard]] Flight end_flight(CommandId command);
    void store_in(Pool pool, ValueId id, Value& value);
    [[nodiscard]] CommandId load(ValueId id, Value const& value, CommandId after);
    void give_up_return(ValueId id, Value const& value);
    void release(Copy const& copy);
    void end_orphan(ValueId id, Value& value);
    void end_left_behind(BlockId block);

    void pool_refused(Pool pool, std::string const& why);
    void encode_failed(Copy& copy, std::string const& why);
    void store_failed(Copy const& copy, std::string const& why);
    void store_ended(ValueId id, Value& value, Failed const* failure);
    void load_ended(ValueId id, Value& value, CommandId fence, bool well);
    void value_failed(Flight const& flight, Value& value, Failed const& event);
    void left_behind_ended(Flight const& flight, CommandId command, Failed const* failure);

    ValueTable& values_;
    Ledger& ledger_;
    Reply& reply_;
    std::unordered_map<CommandId, Flight> flights_;
    std::map<BlockId, LeftBehind> left_behind_;
    std::int64_t used_bytes_ = 0;
    std::int64_t next_block_;
};

}  // namespace spillway
