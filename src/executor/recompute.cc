// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/recompute.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace spillway {

namespace {

/// Operators that run again, one after the other, for one need: a choice. Longer chains save little
/// more (2 % of the saved bytes of fourteen models beyond eight).
constexpr std::int64_t kMostCallsInARow = 8;

/// And before an allocation fails: long enough for any layer; each choice looks at the whole chain.
constexpr std::int64_t kMostCallsBeforeRefusal = 256;

/// What a need brings to the device at once takes no more than this share of the limit: a sixth, so
/// that a budget that moving can meet is met; a third where nothing can be moved anyway.
constexpr std::int64_t kGroupShare = 6;
constexpr std::int64_t kGroupShareAlone = 3;
constexpr std::int64_t kGroupShareOfAPlan = 2;  ///< and before an allocation fails

/// Of calls: no chain is as long. A cycle is.
constexpr std::int64_t kFarTooMany = 1'000'000'000;

}  // namespace

void Recompute::learn(Made const& event) {
    Value* const value = values_.find(event.value);
    if (value == nullptr || value->orphan || value->by_recipe) {
        return;
    }
    values_.alter(event.value, *value, [&](Value& v) {
        v.recipe = event.recipe;
        v.recompute_first = event.before_moves;
    });
    values_.look_again_at(event.value);
    for (ValueId const each : event.recipe.sources) {
        if (Value* const source = values_.find(each)) {
            add_user(*source, event.value);
        }
    }
}

/// A source that lives for many steps forgets those that have ended before it takes more memory.
void Recompute::add_user(Value& source, ValueId user) const {
    if (source.users.size() == source.users.capacity()) {
        std::erase_if(source.users, [this](ValueId id) { return values_.find(id) == nullptr; });
    }
    source.users.push_back(user);
}

bool Recompute::is_sound(RecipeShape const& recipe) const {
    return std::all_of(recipe.sources.begin(), recipe.sources.end(), [&](ValueId id) {
        Value const* const source = values_.find(id);
        return source != nullptr && source->is_sound_source();
    });
}

/// Of the longest chain of recipes that has to run before this one's result is there; too many
/// where `top`, which is to go, is part of it.
std::int64_t Recompute::calls_below(ValueId id, ValueId top, Chains& known) const {
    if (auto const at = known.find(id); at != known.end()) {
        return at->second;
    }
    RecipeShape const& recipe = *values_.find(id)->recipe;
    std::int64_t most = 0;
    for (ValueId const each : recipe.sources) {
        if (each == top) {
            most = kFarTooMany;
            break;
        }
        Value const* const source = values_.find(each);
        if (source != nullptr && source->by_recipe) {
            most = std::max(most, calls_below(each, top, known));
        }
    }
    return known[id] = std::min(most + recipe.calls, kFarTooMany);
}

/// Of the longest chain that needs its result.
std::int64_t Recompute::calls_above(ValueId id, Chains& known) const {
    if (auto const at = known.find(id); at != known.end()) {
        return at->second;
    }
    std::int64_t most = 0;
    for (ValueId const each : values_.find(id)->dependents) {
        if (Value const* const dependent = values_.find(each)) {
            most = std::max(most, calls_above(each, known) + dependent->recipe->calls);
        }
    }
    return known[id] = most;
}

/// Its own recipe needs it, by those of what is gone.
bool Recompute::is_in_a_circle(ValueId id) const {
    std::vector<ValueId> below{id};
    std::int64_t const walk = ++walks_;
    for (std::size_t i = 0; i < below.size(); ++i) {
        for (ValueId const each : values_.find(below[i])->recipe->sources) {
            Value const* const source = values_.find(each);
            if (each == id) {
                return true;
            }
            if (source != nullptr && source->by_recipe && source->seen_by != walk) {
                source->seen_by = walk;
                below.push_back(each);
            }
        }
    }
    return false;
}

/// What a need of `wanted` may have to bring back, once these have gone, is at most so much.
bool Recompute::is_small(ValueId wanted, Going const& going, std::int64_t most_bytes) const {
    std::vector<ValueId> group{wanted};
    std::int64_t const walk = ++walks_;
    std::int64_t bytes = 0;
    std::int64_t transient_bytes = 0;
    for (std::size_t i = 0; i < group.size(); ++i) {
        Value const* const value = values_.find(group[i]);
        if (value == nullptr) {
            continue;
        }
        bytes += value->size_bytes;
        if (value->by_recipe || std::count(going.begin(), going.end(), group[i]) > 0) {
            transient_bytes = std::max(transient_bytes, value->recipe->transient_bytes);
            for (ValueId const each : value->recipe->sources) {
                Value const* const source = values_.find(each);
                if (source != nullptr && each != wanted && source->seen_by != walk) {
                    source->seen_by = walk;
                    group.push_back(each);
                }
            }
        }
        if (bytes + transient_bytes > most_bytes) {
            return false;
        }
    }
    return true;
}

/// Nor is what needs of those may have to bring back that are made of it.
bool Recompute::all_above_are_small(ValueId going, std::int64_t most_bytes) const {
    std::vector<ValueId> above = values_.find(going)->dependents;
    std::unordered_set<ValueId> seen(above.begin(), above.end());
    for (std::size_t i = 0; i < above.size(); ++i) {
        Value const* const value = values_.find(above[i]);
        if (value == nullptr) {
            continue;
        }
        if (!is_small(above[i], {going}, most_bytes)) {
            return false;
        }
        for (ValueId const each : value->dependents) {
            if (seen.insert(each).second) {
                above.push_back(each);
            }
        }
    }
    return true;
}

/// A plan has weighed how many run in a row.
bool Recompute::calls_fit(ValueId id, std::int64_t most_calls) const {
    if (values_.find(id)->choice.recompute) {
        return !is_in_a_circle(id);
    }
    Chains below;
    Chains above;
    return calls_below(id, id, below) + calls_above(id, above) <= most_calls;
}

/// A need of it, and of what is made of it, brings back no more than that share of the limit.
bool Recompute::is_small_once_gone(ValueId id, std::int64_t share) const {
    std::int64_t const most_bytes = device_bytes_ / share;
    return device_bytes_ == 0 ||
           (is_small(id, {id}, most_bytes) && all_above_are_small(id, most_bytes));
}

/// A plan has weighed how much is made again at once; here it may be half of the limit.
std::int64_t Recompute::share_of(Value const& value) const {
    return value.choice.recompute ? kGroupShareOfAPlan : moves_ ? kGroupShare : kGroupShareAlone;
}

bool Recompute::may_drop(ValueId id) const {
    Value const& value = *values_.find(id);
    return is_sound(*value.recipe) && calls_fit(id, kMostCallsInARow) &&
           is_small_once_gone(id, share_of(value));
}

bool Recompute::may_drop_before_refusal(ValueId id) const {
    return is_sound(*values_.find(id)->recipe) && calls_fit(id, kMostCallsBeforeRefusal) &&
           is_small_once_gone(id, kGroupShareOfAPlan);
}

bool Recompute::frees_more_by_staying(ValueId id, bool before_refusal) const {
    Value const& value = *values_.find(id);
    if (moves_ || device_bytes_ == 0 || (value.choice.recompute && !before_refusal)) {
        return false;
    }
    return std::any_of(value.users.begin(), value.users.end(), [&](ValueId each) {
        Value const* const user = values_.find(each);
        if (user == nullptr || user->size_bytes < value.size_bytes) {
            return false;
        }
        std::int64_t const share = before_refusal ? kGroupShareOfAPlan : share_of(*user);
        bool const may_go = before_refusal
                                ? user->could_go_by_recipe() && may_drop_before_refusal(each)
                                : user->is_ready();
        return may_go && !is_small(each, {each, id}, device_bytes_ / share);
    });
}

void Recompute::look_again() {
    for (ValueId const id : values_.take_unsure()) {
        Value* const value = values_.find(id);
        if (value == nullptr) {
            continue;
        }
        value->is_unsure = false;
        if (!value->could_go_by_recipe()) {
            continue;  // until it could
        }
        bool const may_go = may_drop(id);
        if (may_go != value->may_go) {
            values_.alter(id, *value, [&](Value& v) { v.may_go = may_go; });
        }
    }
}

/// The value goes, or comes back, or ends. That is seen by choices about what is made of it, or of
/// what has gone and is made of it; and about all that these are made of.
void Recompute::look_again_around(ValueId id) {
    std::vector<ValueId> reached{id};
    std::int64_t const up = ++walks_;
    for (std::size_t i = 0; i < reached.size(); ++i) {
        Value const& value = *values_.find(reached[i]);
        value.seen_by = up;
        values_.look_again_at_users(value);
        for (ValueId const each : value.dependents) {
            if (Value const* const dependent = values_.find(each);
                dependent != nullptr && dependent->seen_by != up) {
                dependent->seen_by = up;
                reached.push_back(each);
            }
        }
    }
    std::int64_t const down = ++walks_;
    for (std::size_t i = 0; i < reached.size(); ++i) {
        Value const& value = *values_.find(reached[i]);
        values_.look_again_at(reached[i]);
        if (!value.by_recipe) {
            continue;
        }
        for (ValueId const each : value.recipe->sources) {
            if (Value const* const source = values_.find(each);
                source != nullptr && source->seen_by != down) {
                source->seen_by = down;
                reached.push_back(each);
            }
        }
    }
}

void Recompute::drop(ValueId id) {
    Value& value = *values_.find(id);
    Command& gone = reply_.add(CommandKind::drop, Lane::compute, id);
    gone.work = SideWork::recompute;
    gone.size_bytes = value.size_bytes;
    drops_[gone.id] = id;
    transfers_.see_used(transfers_.used_bytes() - value.size_bytes);
    values_.alter(id, value, [](Value& v) {
        v.on_device = false;
        v.by_recipe = true;
    });
    for (ValueId const source : value.recipe->sources) {
        values_.find(source)->dependents.push_back(id);
    }
    order_sources(id);
    look_again_around(id);
}

void Recompute::order_sources(ValueId id) {
    Value const& value = *values_.find(id);
    if (!value.by_recipe) {
        return;
    }
    for (ValueId const each : value.recipe->sources) {
        Value& source = *values_.find(each);
        if (source.distance > value.distance) {
            values_.set_distance(each, source, value.distance);
            order_sources(each);
        }
    }
}

/// What is needed first comes first, so that each source is looked at once.
void Recompute::order_all_sources() {
    std::vector<ValueTable::Key> gone;
    for (ValueId const id : values_.by_recipe()) {
        gone.emplace_back(values_.find(id)->distance, id);
    }
    std::sort(gone.begin(), gone.end());
    for (auto const& [distance, id] : gone) {
        order_sources(id);
    }
}

void Recompute::add_to(Group& group, std::unordered_set<ValueId>& seen, ValueId id) const {
    if (!seen.insert(id).second) {
        return;
    }
    Value const& value = *values_.find(id);
    if (value.takes_device_bytes()) {
        group.there.push_back(id);
        return;
    }
    group.size_bytes += value.size_bytes;
    if (!value.by_recipe) {
        group.loads.push_back(id);
        return;
    }
    for (ValueId const source : value.recipe->sources) {
        add_to(group, seen, source);
    }
    group.runs.push_back(id);
}

Recompute::Group Recompute::group_of(std::vector<ValueId> const& wanted) const {
    Group group;
    std::unordered_set<ValueId> seen;
    for (ValueId const id : wanted) {
        add_to(group, seen, id);
    }
    for (ValueId const id : group.runs) {
        group.transient_bytes =
            std::max(group.transient_bytes, values_.find(id)->recipe->transient_bytes);
    }
    return group;
}

/// A run holds its value and its sources.
void Recompute::hold(Group const& group) {
    auto const hold_one = [&](ValueId id) {
        values_.alter(id, *values_.find(id), [](Value& v) { ++v.holds; });
    };
    for (ValueId const id : group.runs) {
        hold_one(id);
        std::vector<ValueId> const& sources = values_.find(id)->recipe->sources;
        std::for_each(sources.begin(), sources.end(), hold_one);
    }
}

void Recompute::give_up(Group const& group) {
    for (ValueId const id : group.runs) {
        let_go(id);
    }
}

void Recompute::let_go(ValueId id) {
    auto const let_go_of_one = [&](ValueId each) {
        if (Value* const value = values_.find(each)) {
            values_.alter(each, *value, [](Value& v) { v.holds = std::max(0, v.holds - 1); });
        }
    };
    let_go_of_one(id);
    std::vector<ValueId> const& sources = values_.find(id)->recipe->sources;
    std::for_each(sources.begin(), sources.end(), let_go_of_one);
}

void Recompute::bring_back(Group const& group) {
    for (ValueId const id : group.loads) {
        transfers_.bring_back(id, *values_.find(id), false);
    }
    for (std::vector<ValueId> const* const some : {&group.there, &group.loads}) {
        for (ValueId const id : *some) {
            Value& value = *values_.find(id);
            if (value.way_back) {
                transfers_.bind(id, value);
            } else if (value.loads.last.valid()) {
                reply_.add_wait(value.loads.last);
            }
        }
    }
    for (ValueId const id : group.runs) {
        run(id);
    }
}

/// After the run of each source, and after each source's load.
void Recompute::run(ValueId id) {
    Value& value = *values_.find(id);
    Command& run = reply_.add(CommandKind::run, Lane::compute, id);
    run.work = SideWork::recompute;
    run.size_bytes = value.size_bytes;
    for (ValueId const source : value.recipe->sources) {
        Value const& from = *values_.find(source);
        if (from.way_back) {
            run.after.push_back(from.way_back->fence);
        } else if (from.loads.last.valid()) {
            run.after.push_back(from.loads.last);
        }
    }
    last_run_ = run.id;
    runs_[run.id] = id;
    CommandId const fence = run.id;
    transfers_.see_used(transfers_.used_bytes() + value.size_bytes);
    values_.alter(id, value, [&](Value& v) { v.way_back = Return{fence}; });
}

/// No source counts it as a dependent any more.
void Recompute::unlink(ValueId id, Value const& value) {
    look_again_around(id);
    for (ValueId const each : value.recipe->sources) {
        if (Value* const source = values_.find(each)) {
            std::erase(source->dependents, id);
        }
    }
}

bool Recompute::forget(ValueId id, Value& value) {
    if (value.by_recipe && value.way_back) {
        values_.alter(id, value, [](Value& v) { v.orphan = true; });
        return true;
    }
    if (value.by_recipe) {
        unlink(id, value);
    }
    return false;
}

bool Recompute::ended(CommandId command) {
    if (drops_.erase(command) != 0) {
        return true;
    }
    auto const run = runs_.extract(command);
    if (!run.empty()) {
        run_is_over(command, run.mapped(), true);
    }
    return !run.empty();
}

bool Recompute::failed(CommandId command) {
    if (auto const run = runs_.extract(command); !run.empty()) {
        run_is_over(command, run.mapped(), false);
        return true;
    }
    auto const drop = drops_.extract(command);
    if (drop.empty()) {
        return false;
    }
    ValueId const id = drop.mapped();
    if (Value* const value = values_.find(id)) {  // it is where it was
        unlink(id, *value);
        values_.alter(id, *value, [](Value& v) {
            v.on_device = true;
            v.by_recipe = false;
            v.recipe.reset();
        });
    }
    return true;
}

void Recompute::run_is_over(CommandId command, ValueId id, bool well) {
    last_run_ = last_run_ == command ? CommandId{} : last_run_;
    let_go(id);
    Value& value = *values_.find(id);
    if (well || value.orphan) {
        unlink(id, value);
    }
    if (value.orphan) {
        values_.erase(id);
        return;
    }
    values_.alter(id, value, [&](Value& v) {
        v.on_device = well;
        v.by_recipe = !well;
        v.way_back.reset();
    });
}

}  // namespace spillway
