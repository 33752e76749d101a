// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A saved value as the executor knows it: on the device or not, maybe with a copy away, maybe on
// its way back.
#pragma once

#include "base/ids.h"
#include "base/place.h"
#include "executor/chooser.h"
#include "trace/recipe.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace spillway {

/// A block in an away pool that holds a value's bytes, or will when its store has ended.
struct Copy {
    BlockId block;
    Pool pool = Pool::host;
    std::int64_t size_bytes = 0;  ///< what the block took, whatever a next one would
    CommandId store_fence;
    bool is_coded = false;
    bool encode_failed = false;  ///< its store fails for that, which is no fault of the pool's
    bool has_room = true;        ///< the tier granted it
    bool is_stored = false;
};

/// Device room is reserved, and the bytes are on their way into it.
struct Return {
    CommandId fence;  ///< of the decode, where there is one
};

/// Loads of a block that have not ended, also those that were given up since.
struct Loads {
    int in_flight = 0;
    CommandId last{};  ///< the fence of the latest one; invalid once that has ended
};

/// `distance` orders by next use: larger is needed later.
struct Value {
    std::int64_t size_bytes = 0;
    std::int64_t encoded_bytes = 0;  ///< what its next block takes; 0: it goes as it is
    std::int64_t distance = 0;
    Choice choice{};
    bool on_device = true;             ///< a storage holds it
    std::optional<Copy> copy{};        ///< away, or on its way there
    std::optional<Return> way_back{};  ///< not yet bound; then it is not on the device
    Loads loads{};
    bool unshared = false;     ///< dropping it gives its bytes back
    bool orphan = false;       ///< nothing refers to it; it waits for its copies in flight
    bool fetched = false;      ///< backward had it; not read ahead again
    std::int64_t used_at = 0;  ///< `ValueTable::uses` when it was saved or needed last

    // By the plan (plan_times.h)
    std::int32_t place = -1;     ///< in the plan; -1: it names no time of the value's or by it
    bool is_to_leave = false;    ///< its time has come: it goes once its store has ended
    bool awaits_return = false;  ///< it is read ahead only when its time has come

    // Note [Recipes] (recompute.h)
    std::optional<RecipeShape> recipe{};
    bool recompute_first = false;       ///< it goes by its recipe before anything is moved
    bool by_recipe = false;             ///< gone without a copy: a run makes it again
    std::vector<ValueId> dependents{};  ///< that are gone, and whose recipes need it
    int holds = 0;                      ///< of runs that need it on the device
    std::vector<ValueId> users{};       ///< whose recipes need it, gone or not
    mutable std::int64_t seen_by = 0;   ///< the last walk along recipes that came by
    bool may_go = false;                ///< what Recompute found last; counts while it could go
    bool is_unsure = false;             ///< it will be looked at again (ValueTable::take_unsure)
    bool goes_by_plan = false;  ///< the plan has it made again, and it has not gone for that yet

    /// What a block of it takes from now on.
    [[nodiscard]] std::int64_t away_bytes() const {
        return encoded_bytes > 0 ? encoded_bytes : size_bytes;
    }
    /// It has bytes of the device's, its own or those it comes back to.
    [[nodiscard]] bool takes_device_bytes() const { return on_device || way_back.has_value(); }
    [[nodiscard]] bool is_being_stored() const { return copy.has_value() && !copy->is_stored; }
    /// It has a recipe and is where a drop would free its bytes.
    [[nodiscard]] bool could_go_by_recipe() const {
        return recipe && on_device && unshared && !copy && holds == 0 && !orphan &&
               choice.advice != Advice::never;
    }
    /// Not only before an allocation fails, as what is to stay, or to leave by a copy.
    [[nodiscard]] bool could_go_when_asked() const {
        return could_go_by_recipe() && choice.advice == Advice::when_asked;
    }
    /// Only away, and it comes back before its need where there is room.
    [[nodiscard]] bool is_read_ahead() const {
        return copy && !takes_device_bytes() && !fetched && !awaits_return;
    }
    /// It goes by its recipe whenever room is asked for.
    [[nodiscard]] bool is_ready() const { return may_go && could_go_when_asked(); }
    [[nodiscard]] bool is_due_by_plan() const {
        return goes_by_plan && is_to_leave && !fetched && is_ready();
    }
    /// It waits to go by its recipe, so that nothing is stored ahead.
    [[nodiscard]] bool waits_for_its_recipe() const {
        return (choice.recompute && recipe) || (recompute_first && is_ready());
    }
    /// What is made of it may rely on it.
    [[nodiscard]] bool is_sound_source() const {
        return encoded_bytes == 0 && !(copy && copy->is_coded) && !orphan &&
               (unshared || !on_device);
    }
    /// Its store starts as soon as it can.
    [[nodiscard]] bool is_about_to_leave() const {
        return choice.advice == Advice::at_once && on_device && !copy && !fetched;
    }
};

}  // namespace spillway
