// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/room.h"

#include "base/assert.h"
#include "base/units.h"
#include "executor/delta.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

/// Stores start this share of the limit before room is needed, so that they have ended when a drop
/// needs them: a tuning choice; bench-step reports the stalls that remain (stall_store_s_per_step).
constexpr std::int64_t kStoreAheadShare = 8;

/// This share of the limit is stored beyond what left in the steps before.
constexpr std::int64_t kStoreAheadSpareShare = 64;

/// Read-ahead leaves this share of the limit beside the demand reserve, for what no step showed.
constexpr std::int64_t kReadAheadShare = 64;

constexpr std::int64_t kPageBytes = 4096;
constexpr std::int64_t kOrderedEnd = kOrderedFirst / 2;

using Views = std::vector<ValueTable::Order const*>;

std::vector<ValueId> all_of(Views const& views) {
    std::vector<ValueId> all;
    for (ValueTable::Order const* const view : views) {
        std::transform(view->begin(), view->end(), std::back_inserter(all), [](auto const& entry) {
            return entry.second;
        });
    }
    return all;
}

/// The values of views one by one, those that leave first in front. What was given may leave its
/// view or be needed sooner, and others may leave theirs.
class Candidates {
  public:
    Candidates(ValueTable const& values, Views views, bool by_delta)
        : views_(std::move(views)), by_delta_(by_delta) {
        if (by_delta) {
            ordered_ = delta_order(values, all_of(views_));
        }
    }

    /// Invalid: there is none left.
    ValueId next() {
        if (by_delta_) {
            return given_ == ordered_.size() ? ValueId{} : ordered_[given_++];
        }
        std::optional<ValueTable::Key> latest;
        for (ValueTable::Order const* const view : views_) {
            auto const at = last_ ? view->lower_bound(*last_) : view->end();
            if (at != view->begin() && (!latest || *latest < *std::prev(at))) {
                latest = *std::prev(at);
            }
        }
        last_ = latest ? latest : last_;
        return latest ? latest->second : ValueId{};
    }

  private:
    Views views_;
    bool by_delta_;
    std::vector<ValueId> ordered_;  ///< all of them, by DELTA's rule
    std::size_t given_ = 0;         ///< of these
    std::optional<ValueTable::Key> last_;
};

}  // namespace

/// Stores start when the device holds more than this.
std::int64_t Room::store_ahead_bytes() const {
    return options_.device_bytes -
           std::max(options_.device_bytes / kStoreAheadShare, floor_.may_rise_bytes());
}

/// As much as the steps before needed, and a little for what differs, could leave this moment.
bool Room::is_enough_stored() const {
    std::int64_t const spare = options_.device_bytes / kStoreAheadSpareShare;
    return left_.suffice(values_.droppable_bytes() - spare);
}

void Room::drop(ValueId id) {
    Value const& value = *values_.find(id);
    if (!value.way_back) {  // else it had left before
        left_.add(value.size_bytes);
    }
    transfers_.drop(id);
}

/// Half the limit, so that values that are reported late still have time to leave. A value that is
/// to leave at once waits for a `Point`, which no quiet save brings.
bool Room::may_report_later(std::int64_t used_bytes, Advice advice) const {
    std::int64_t const limit = options_.device_bytes;
    return advice != Advice::at_once && values_.about_to_leave() == 0 && ledger_.is_empty() &&
           values_.by_recipe().empty() &&
           (limit == 0 || used_bytes < std::min(limit / 2, store_ahead_bytes()));
}

void Room::store_ahead() {
    if (options_.device_bytes == 0) {
        return;
    }
    auto const excess = [&] {
        return floor_.now_bytes() + values_.held_bytes() - values_.droppable_bytes() -
               store_ahead_bytes();
    };
    if (excess() <= 0 || is_enough_stored()) {
        return;
    }
    recompute_.look_again();
    std::int64_t const by_recipe_bytes = values_.ready_first_bytes();
    if (excess() <= by_recipe_bytes) {
        return;
    }
    Views views{&values_.storable()};
    if (is_delta()) {  // its rule weighs all that could leave
        views.push_back(&values_.waiting());
    }
    Candidates candidates(values_, views, is_delta());
    while (excess() > by_recipe_bytes && !is_enough_stored()) {
        ValueId const id = candidates.next();
        if (!id.valid()) {
            return;
        }
        recompute_.look_again();
        Value const& value = *values_.find(id);
        if (value.waits_for_its_recipe() || transfers_.start_store(id, false)) {
            continue;
        }
        if (!ledger_.is_too_large(Pool::nvme, value.away_bytes())) {
            return;  // what is full is full for smaller ones, too, or nearly
        }
    }
}

/// What optional loads may fill.
std::int64_t Room::read_ahead_limit_bytes() const {
    return options_.device_bytes == 0
               ? std::numeric_limits<std::int64_t>::max()
               : options_.device_bytes -
                     std::max(floor_.may_rise_bytes(), options_.device_bytes / kReadAheadShare);
}

void Room::leave_by_plan(ValueId id) {
    Value const& value = *values_.find(id);
    bool const can_leave =
        value.on_device && value.unshared && value.copy && !value.orphan && value.holds == 0;
    if (value.is_to_leave && can_leave) {
        drop(id);
    }
}

void Room::return_by_plan(std::vector<ValueId> const& ids) {
    for (ValueId const id : ids) {
        Value* const value = values_.find(id);
        if (value == nullptr) {
            continue;
        }
        values_.alter(id, *value, [](Value& v) { v.awaits_return = false; });
        bool const is_away = value->copy && !value->takes_device_bytes() && !value->orphan;
        if (is_away && !value->fetched && has_room_for_return(value->size_bytes)) {
            transfers_.bring_back(id, *value, true);
        }
    }
}

/// A plan counts on the room of values that ended while they were stored: by now, it foretold,
/// their stores have ended, whatever is known of a device that runs behind.
bool Room::has_room_for_return(std::int64_t size_bytes) {
    std::int64_t const missing = transfers_.used_bytes() + size_bytes - read_ahead_limit_bytes();
    if (missing <= 0) {
        return true;
    }
    std::int64_t storing_bytes = 0;
    for (auto const& [distance, id] : values_.orphans()) {
        Value const& value = *values_.find(id);
        storing_bytes += value.takes_device_bytes() ? value.size_bytes : 0;
    }
    return storing_bytes >= missing && wait_for_orphans(missing) >= missing;
}

void Room::read_ahead(bool ordered) {
    if (options_.device_bytes == 0) {
        return;
    }
    std::int64_t const limit = read_ahead_limit_bytes();
    std::vector<ValueId> wanted;
    std::int64_t used = transfers_.used_bytes();
    for (auto const& [distance, id] : values_.absent()) {
        Value const& value = *values_.find(id);
        if (ordered && distance > kOrderedEnd) {
            break;
        }
        used += value.size_bytes;
        if (used > limit) {
            break;
        }
        wanted.push_back(id);
    }
    for (ValueId const id : wanted) {
        transfers_.bring_back(id, *values_.find(id), true);
    }
}

std::int64_t Room::make_room(std::int64_t missing_bytes) {
    if (is_delta()) {
        std::int64_t freed = wait_for_orphans(missing_bytes);
        freed += evict_by_delta(missing_bytes - freed);
        freed += store_and_drop(missing_bytes - freed, true);
        freed += drop_before_refusal(missing_bytes - freed);
        return freed;
    }
    std::int64_t freed = drop_by_recipes(missing_bytes, true);
    freed += drop_from(missing_bytes - freed);
    freed += wait_for_orphans(missing_bytes - freed);
    freed += store_and_drop(missing_bytes - freed, false);
    freed += drop_by_recipes(missing_bytes - freed, false);
    freed += store_and_drop(missing_bytes - freed, true);
    freed += drop_before_refusal(missing_bytes - freed);
    return freed;
}

/// `before_moves`: only what costs less to make again than to move.
bool Room::goes_by_recipe(ValueId id, bool before_moves) {
    recompute_.look_again();
    Value const& value = *values_.find(id);
    return value.is_ready() && (value.recompute_first || !before_moves);
}

/// Those needed last first.
std::int64_t Room::drop_by_recipes(std::int64_t missing_bytes, bool before_moves) {
    if (missing_bytes <= 0 || options_.chooser == ChooserKind::keep_all) {
        return 0;
    }
    recompute_.look_again();
    Candidates candidates(values_, {&values_.ready()}, false);
    std::int64_t freed = 0;
    while (freed < missing_bytes) {
        ValueId const id = candidates.next();
        if (!id.valid()) {
            break;
        }
        if (goes_by_recipe(id, before_moves) && !recompute_.frees_more_by_staying(id, false)) {
            freed += values_.find(id)->size_bytes;
            drop_by_recipe(id);
            recompute_.look_again();
        }
    }
    return freed;
}

/// What is to stay, or to leave by a copy that has no room anywhere, or would stay since too much
/// would run or come back at once. Those needed last first; then those, too, whose staying lets a
/// larger one go.
std::int64_t Room::drop_before_refusal(std::int64_t missing_bytes) {
    if (missing_bytes <= 0 || options_.chooser == ChooserKind::keep_all) {
        return 0;
    }
    std::int64_t freed = 0;
    bool has_spared = true;
    for (bool const spares_sources : {true, false}) {
        if (!std::exchange(has_spared, false)) {
            break;
        }
        Candidates candidates(
            values_, {&values_.storable(), &values_.waiting(), &values_.last_resort()}, false
        );
        while (freed < missing_bytes) {
            ValueId const id = candidates.next();
            if (!id.valid()) {
                break;
            }
            Value const& value = *values_.find(id);
            if (!value.could_go_by_recipe() || !recompute_.may_drop_before_refusal(id)) {
                continue;
            }
            if (spares_sources && recompute_.frees_more_by_staying(id, true)) {
                has_spared = true;
                continue;
            }
            freed += value.size_bytes;
            drop_by_recipe(id);
        }
    }
    return freed;
}

void Room::drop_by_recipe(ValueId id) {
    Value const& value = *values_.find(id);
    SPILLWAY_ASSERT(recompute_.may_drop_before_refusal(id), "what goes by its recipe may");
    left_.add(value.size_bytes);
    floor_.will_rise(value.recipe->transient_bytes);
    settle_by_plan(id);
    recompute_.drop(id);
}

/// Once it has gone by its recipe, or backward had it, the plan's word is kept. That counts from
/// the next `recompute_by_plan` on, if it still holds there.
void Room::settle_by_plan(ValueId id) {
    if (values_.find(id)->goes_by_plan) {
        settled_.push_back(id);
    }
}

void Room::recompute_by_plan() {
    if (options_.chooser != ChooserKind::planned) {
        return;
    }
    auto const settle = [&](ValueId id, Value& value) {
        values_.alter(id, value, [](Value& v) { v.goes_by_plan = false; });
    };
    for (ValueId const id : std::exchange(settled_, {})) {
        Value* const value = values_.find(id);
        if (value != nullptr && (value->fetched || value->by_recipe)) {
            settle(id, *value);
        }
    }
    recompute_.look_again();
    auto const& due = values_.due_by_plan();
    for (auto at = due.begin(); at != due.end();) {
        ValueId const id = *at;
        settle(id, *values_.find(id));
        drop_by_recipe(id);
        recompute_.look_again();
        at = due.upper_bound(id);
    }
}

/// One after the other, each by its own way; the other way where that has no room.
std::int64_t Room::evict_by_delta(std::int64_t missing_bytes) {
    if (missing_bytes <= 0) {
        return 0;
    }
    Views const views{&values_.droppable(), &values_.storable(), &values_.waiting()};
    std::vector<ValueId> leaving;
    std::int64_t freed = 0;
    for (ValueId const id : delta_order(values_, all_of(views))) {
        if (freed >= missing_bytes) {
            break;
        }
        Value const& value = *values_.find(id);
        if (goes_by_recipe(id, true)) {
            drop_by_recipe(id);
        } else if (value.copy || value.way_back || transfers_.start_store(id, true)) {
            leaving.push_back(id);
        } else if (goes_by_recipe(id, false)) {
            drop_by_recipe(id);
        } else {
            continue;
        }
        freed += value.size_bytes;
    }
    for (ValueId const id : leaving) {
        drop(id);
    }
    return freed;
}

std::int64_t Room::drop_from(std::int64_t missing_bytes) {
    std::int64_t freed = 0;
    while (freed < missing_bytes && !values_.droppable().empty()) {
        ValueId const id = values_.droppable().rbegin()->second;
        freed += values_.find(id)->size_bytes;
        drop(id);
    }
    return freed;
}

/// What nobody needs any more and a copy still uses: its bytes are free after the copy.
std::int64_t Room::wait_for_orphans(std::int64_t missing_bytes) {
    std::vector<ValueId> waited_for;
    std::int64_t freed = 0;
    for (auto const& [distance, id] : values_.orphans()) {
        Value const& value = *values_.find(id);
        if (freed >= missing_bytes) {
            break;
        }
        if (value.takes_device_bytes()) {
            freed += value.size_bytes;
            waited_for.push_back(id);
        }
    }
    for (ValueId const id : waited_for) {
        transfers_.wait_for_orphan(id);
    }
    return freed;
}

std::int64_t Room::store_and_drop(std::int64_t missing_bytes, bool last_resort) {
    if (missing_bytes <= 0) {
        return 0;
    }
    std::vector<ValueId> leaving;
    std::int64_t freed = 0;
    Candidates candidates(
        values_,
        last_resort ? Views{&values_.last_resort()}
                    : Views{&values_.storable(), &values_.waiting()},
        is_delta()
    );
    while (freed < missing_bytes) {
        ValueId const id = candidates.next();
        if (!id.valid()) {
            break;
        }
        if (transfers_.start_store(id, true)) {  // one that fits nowhere does not stop smaller ones
            freed += values_.find(id)->size_bytes;
            leaving.push_back(id);
        }
    }
    for (ValueId const id : leaving) {
        drop(id);
    }
    return freed;
}

/// Why values that could leave cannot leave for `pool`.
PoolRefusal Room::refusal_of(Pool pool) const {
    if (!ledger_.exists(pool)) {
        return {};
    }
    auto const is_long = [&](auto const& entry) {
        return ledger_.is_too_large(pool, values_.find(entry.second)->away_bytes());
    };
    auto const all_are = [&](auto const& entries) {
        return std::all_of(entries.begin(), entries.end(), is_long);
    };
    if (all_are(values_.storable()) && all_are(values_.waiting()) &&
        all_are(values_.last_resort())) {
        return {PoolState::too_short, ""};
    }
    std::string const* const why = ledger_.why_closed(pool);
    return why == nullptr ? PoolRefusal{PoolState::full, ""} : PoolRefusal{PoolState::failed, *why};
}

/// There are values that could leave, and no pool has room for one of them.
bool Room::has_nowhere_to_go() const {
    bool is_one_there = false;
    for (auto const* const order :
         {&values_.storable(), &values_.waiting(), &values_.last_resort()}) {
        for (auto const& [distance, id] : *order) {
            std::int64_t const size_bytes = values_.find(id)->away_bytes();
            if (ledger_.has_room(Pool::host, size_bytes) ||
                ledger_.has_room(Pool::nvme, size_bytes)) {
                return false;
            }
            is_one_there = true;
        }
    }
    return is_one_there;
}

void Room::refuse(Short const& event, std::int64_t freed_bytes) {
    Refusal refusal{
        .asked_bytes = event.size_bytes,
        .used_bytes = event.usage.used_bytes,
        .limit_bytes = options_.device_bytes,
        .freed_bytes = freed_bytes,
        // Whole pages: limits are rounded down to them, and this number may become one.
        .needed_bytes =
            round_up(event.usage.used_bytes - freed_bytes + event.size_bytes, kPageBytes)};
    ValueId held;
    if (options_.chooser == ChooserKind::keep_all) {
        refusal.why = NoRoom::moves_nothing;
    } else if (!ledger_.exists(Pool::host) && !ledger_.exists(Pool::nvme)) {
        refusal.why = NoRoom::no_pool;
    } else if (has_nowhere_to_go()) {
        refusal.why = NoRoom::pools_full;
        refusal.host = refusal_of(Pool::host);
        refusal.nvme = refusal_of(Pool::nvme);
    } else {
        refusal.held_bytes = values_.held_bytes();
        held = refusal.held_bytes > 0 ? values_.largest_held() : ValueId{};
    }
    reply_.add(CommandKind::raise, Lane::compute, held).message = std::move(refusal);
}

}  // namespace spillway
