// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/room.h"

#include "base/units.h"
#include "executor/delta.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <unordered_set>
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

/// The values of a view one by one, those that leave first in front. What was given may leave the
/// view or move in it; nothing else may.
class Candidates {
  public:
    Candidates(ValueTable const& values, ValueTable::Order const& view, bool by_delta)
        : view_(view), by_delta_(by_delta) {
        if (by_delta) {
            std::vector<ValueId> all;
            std::transform(
                view.begin(),
                view.end(),
                std::back_inserter(all),
                [](auto const& entry) { return entry.second; }
            );
            ordered_ = delta_order(values, std::move(all));
        }
    }

    /// Invalid: there is none left.
    ValueId next() {
        if (by_delta_) {
            return given_ == ordered_.size() ? ValueId{} : ordered_[given_++];
        }
        auto const at = last_ ? view_.lower_bound(*last_) : view_.end();
        if (at == view_.begin()) {
            return {};
        }
        last_ = *std::prev(at);
        return last_->second;
    }

  private:
    ValueTable::Order const& view_;
    bool const by_delta_;
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
    if (excess() <= 0 || values_.storable().empty() || is_enough_stored()) {
        return;
    }
    std::int64_t const by_recipe_bytes = goes_at_any_moment_bytes(excess());
    if (excess() <= by_recipe_bytes) {
        return;
    }
    Candidates candidates(values_, values_.storable(), is_delta());
    for (ValueId id = candidates.next();
         id.valid() && excess() > by_recipe_bytes && !is_enough_stored();
         id = candidates.next()) {
        Value const& value = *values_.find(id);
        bool const waits_for_sources = value.choice.recompute && value.recipe;
        if (waits_for_sources || goes_by_recipe(id, true) || transfers_.start_store(id, false)) {
            continue;
        }
        if (!ledger_.is_too_large(Pool::nvme, values_.find(id)->away_bytes())) {
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
        bool const fits = transfers_.used_bytes() + value->size_bytes <= read_ahead_limit_bytes();
        if (is_away && !value->fetched && fits) {
            transfers_.bring_back(id, *value, true);
        }
    }
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
        return freed;
    }
    std::int64_t freed = drop_by_recipes(missing_bytes, true);
    freed += drop_from(missing_bytes - freed);
    freed += wait_for_orphans(missing_bytes - freed);
    freed += store_and_drop(missing_bytes - freed, false);
    freed += drop_by_recipes(missing_bytes - freed, false);
    freed += store_and_drop(missing_bytes - freed, true);
    return freed;
}

/// `before_moves`: only what costs less to make again than to move.
bool Room::goes_by_recipe(ValueId id, bool before_moves) const {
    Value const& value = *values_.find(id);
    return value.could_go_by_recipe() && (value.recompute_first || !before_moves) &&
           recompute_.may_drop(id);
}

/// By recipes that cost less than a move; no more than `enough_bytes` of it are looked for.
std::int64_t Room::goes_at_any_moment_bytes(std::int64_t enough_bytes) const {
    std::int64_t bytes = 0;
    for (auto const& [distance, id] : values_.recomputable()) {
        if (bytes >= enough_bytes) {
            break;
        }
        bytes += goes_by_recipe(id, true) ? values_.find(id)->size_bytes : 0;
    }
    return bytes;
}

/// Those needed last first.
std::int64_t Room::drop_by_recipes(std::int64_t missing_bytes, bool before_moves) {
    if (options_.chooser == ChooserKind::keep_all) {
        return 0;
    }
    Candidates candidates(values_, values_.recomputable(), false);
    std::unordered_set<ValueId> stayed;  // a drop may have its sources needed sooner
    std::int64_t freed = 0;
    while (freed < missing_bytes) {
        ValueId const id = candidates.next();
        if (!id.valid()) {
            break;
        }
        if (!goes_by_recipe(id, before_moves)) {
            stayed.insert(id);
        } else if (!stayed.contains(id)) {
            freed += values_.find(id)->size_bytes;
            drop_by_recipe(id);
        }
    }
    return freed;
}

void Room::drop_by_recipe(ValueId id) {
    Value const& value = *values_.find(id);
    left_.add(value.size_bytes);
    floor_.will_rise(value.recipe->transient_bytes);
    recompute_.drop(id);
}

void Room::recompute_by_plan() {
    std::erase_if(to_recompute_, [this](ValueId id) {
        Value const* const value = values_.find(id);
        if (value == nullptr || value->fetched || value->by_recipe) {
            return true;
        }
        bool const goes = value->is_to_leave && goes_by_recipe(id, false);
        if (goes) {
            drop_by_recipe(id);
        }
        return goes;
    });
}

/// One after the other, each by its own way; the other way where that has no room.
std::int64_t Room::evict_by_delta(std::int64_t missing_bytes) {
    if (missing_bytes <= 0) {
        return 0;
    }
    std::vector<ValueId> all;
    for (ValueTable::Order const* const view : {&values_.droppable(), &values_.storable()}) {
        std::transform(view->begin(), view->end(), std::back_inserter(all), [](auto const& entry) {
            return entry.second;
        });
    }
    std::vector<ValueId> leaving;
    std::int64_t freed = 0;
    for (ValueId const id : delta_order(values_, std::move(all))) {
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
        values_, last_resort ? values_.last_resort() : values_.storable(), is_delta()
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
    if (all_are(values_.storable()) && all_are(values_.last_resort())) {
        return {PoolState::too_short, ""};
    }
    std::string const* const why = ledger_.why_closed(pool);
    return why == nullptr ? PoolRefusal{PoolState::full, ""} : PoolRefusal{PoolState::failed, *why};
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
    } else if (!values_.storable().empty() || !values_.last_resort().empty()) {
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
