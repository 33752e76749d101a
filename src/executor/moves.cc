// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The executor's moves: what leaves, what comes back, how room is made.

#include "base/rules.h"
#include "base/units.h"
#include "executor/decisions.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

namespace spillway {

namespace {

/// Stores start this share of the limit before room is needed, so that a drop finds them ended:
/// a choice; bench-step tells the stalls that it leaves (stall_store_s_per_step).
constexpr std::int64_t kStoreAheadShare = 8;

/// Read-ahead leaves this share of the limit beside the demand reserve, for what no step showed.
constexpr std::int64_t kReadAheadShare = 64;

constexpr std::int64_t kPageBytes = 4096;

constexpr std::int64_t kFirstBehind = -2;  // -1 names nothing

constexpr Lane store_lane(Pool pool) {
    return pool == Pool::host ? Lane::copy_out : Lane::nvme_write;
}
constexpr Lane load_lane(Pool pool) {
    return pool == Pool::host ? Lane::copy_in : Lane::nvme_read;
}

}  // namespace

/// Stores start when the device holds more than this.
std::int64_t Executor::Impl::store_ahead_bytes() const {
    return options_.device_bytes -
           std::max(options_.device_bytes / kStoreAheadShare, floor_.may_rise_bytes());
}

/// Half the limit, so that what is told at last still finds time to leave; a plan may want a store
/// at once. What is to leave at once waits for a `Point`, which no quiet save brings.
bool Executor::Impl::may_be_told_later(std::int64_t used_bytes, Advice advice) const {
    std::int64_t const limit = options_.device_bytes;
    return options_.chooser != ChooserKind::planned && advice != Advice::at_once &&
           values_.about_to_leave() == 0 && all_on_device() &&
           (limit == 0 || used_bytes < std::min(limit / 2, store_ahead_bytes()));
}

/// Starts stores, those needed last first, until what can be dropped covers the headroom.
void Executor::Impl::store_ahead() {
    if (options_.device_bytes == 0) {
        return;
    }
    std::int64_t const target = store_ahead_bytes();
    std::size_t passed_over = 0;
    while (floor_.now_bytes() + values_.held_bytes() - values_.droppable_bytes() > target &&
           passed_over < values_.storable().size()) {
        auto const at =
            std::next(values_.storable().rbegin(), static_cast<std::ptrdiff_t>(passed_over));
        ValueId const id = at->second;
        if (start_store(id, false)) {
            continue;
        }
        if (!ledger_.is_too_large(Pool::nvme, values_.find(id)->away_bytes())) {
            return;  // what is full is full for smaller ones, too, or nearly
        }
        ++passed_over;
    }
}

/// Reserves room in the first pool that has it and starts the store. False when none has.
/// `anywhere`: pools before the one that was chosen follow as the last.
bool Executor::Impl::start_store(ValueId id, bool anywhere) {
    Value* const value = values_.find(id);
    std::array<Pool, kAwayPools.size()> pools = kAwayPools;
    std::rotate(
        pools.begin(), std::find(pools.begin(), pools.end(), value->choice.pool), pools.end()
    );
    for (Pool const pool : pools) {
        bool const allowed = anywhere || pool >= value->choice.pool;
        if (allowed && ledger_.take(pool, value->away_bytes())) {
            store_in(pool, id, *value);
            return true;
        }
    }
    return false;
}

/// [reserve, store] of room that the ledger granted; [reserve, encode, store] of a value with a
/// code.
void Executor::Impl::store_in(Pool pool, ValueId id, Value& value) {
    BlockId const block{next_block_++};
    bool const is_coded = value.encoded_bytes > 0;
    Command& reserve = say(CommandKind::reserve, store_lane(pool), id);
    reserve.block = block;
    reserve.pool = pool;
    reserve.size_bytes = value.away_bytes();
    CommandId const reserved = reserve.id;
    flights_[reserved] = {Work::reserve_away, id};
    CommandId ready = reserved;
    if (is_coded) {
        ready = say_run(SideWork::encode, id, block, value.size_bytes, reserved);
        flights_[ready] = {Work::encode, id};
    }
    Command& store = say(CommandKind::store, store_lane(pool), id);
    store.block = block;
    store.pool = pool;
    store.size_bytes = value.away_bytes();
    store.after = {ready};
    flights_[store.id] = {Work::store, id, reserved};
    values_.alter(id, value, [&](Value& v) {
        v.away = Away::storing;
        v.has_room = true;
        v.block = block;
        v.block_bytes = v.away_bytes();
        v.block_is_coded = is_coded;
        v.pool = pool;
        v.store_fence = store.id;
    });
}

/// Reserves device room for an absent value and starts its load: [reserve, load], or [reserve,
/// load, decode].
void Executor::Impl::start_load(ValueId id, Value& value, bool optional) {
    Command& reserve = say(CommandKind::reserve, load_lane(value.pool), id);
    reserve.pool = Pool::device;
    reserve.size_bytes = value.size_bytes;
    reserve.optional = optional;
    CommandId const reserved = reserve.id;
    Command& load = say(CommandKind::load, load_lane(value.pool), id);
    load.block = value.block;
    load.pool = value.pool;
    load.size_bytes = value.block_bytes;
    load.after = {reserved};
    if (value.away == Away::storing) {
        load.after.push_back(value.store_fence);
    }
    CommandId fence = load.id;
    if (value.block_is_coded) {
        fence = say_run(SideWork::decode, id, value.block, value.size_bytes, fence);
    }
    flights_[fence] = {Work::load, id};
    used_bytes_ += value.size_bytes;
    values_.alter(id, value, [&](Value& v) {
        v.device = OnDevice::returning;
        v.load_fence = fence;
        v.load_ended = false;
        ++v.loads;
    });
}

/// In backward: brings back what is needed next, as far as the demand reserve stays free.
void Executor::Impl::read_ahead() {
    if (options_.device_bytes == 0) {
        return;
    }
    std::int64_t const limit =
        options_.device_bytes -
        std::max(floor_.may_rise_bytes(), options_.device_bytes / kReadAheadShare);
    std::vector<ValueId> wanted;
    std::int64_t used = used_bytes_;
    for (auto const& [distance, id] : values_.absent()) {
        Value const& value = *values_.find(id);
        if (ordered_ && distance > kOrderedEnd) {
            break;
        }
        if (value.fetched) {
            continue;
        }
        used += value.size_bytes;
        if (used > limit) {
            break;
        }
        wanted.push_back(id);
    }
    for (ValueId const id : wanted) {
        start_load(id, *values_.find(id), true);
    }
}

/// Gives the target of a load up: [wait, release].
void Executor::Impl::give_up_target(ValueId id, Value const& value) {
    if (keeps(Rule::release_waits_for_the_load)) {
        say_wait(value.load_fence);
    }
    Command& release = say(CommandKind::release, Lane::compute, id);
    release.pool = Pool::device;
    release.size_bytes = value.size_bytes;
}

/// Lets go of the device bytes of a value that has a copy: [wait, drop], or those of a value on its
/// way back.
void Executor::Impl::drop(ValueId id) {
    Value* const value = values_.find(id);
    if (value->device == OnDevice::returning) {
        give_up_target(id, *value);
    } else {
        say_wait(value->store_fence);
        Command& gone = say(CommandKind::drop, Lane::compute, id);
        gone.size_bytes = value->size_bytes;
        gone.after = {value->store_fence};
        flights_[gone.id] = {Work::drop, id};
    }
    used_bytes_ -= value->size_bytes;
    values_.alter(id, *value, [](Value& v) { v.device = OnDevice::none; });
}

/// Builds the commands that free at least `missing_bytes`; returns what they free.
std::int64_t Executor::Impl::make_room(std::int64_t missing_bytes) {
    std::int64_t freed = drop_from(missing_bytes);
    freed += wait_for_orphans(missing_bytes - freed);
    freed += store_and_drop(missing_bytes - freed, false);
    freed += store_and_drop(missing_bytes - freed, true);
    return freed;
}

std::int64_t Executor::Impl::drop_from(std::int64_t missing_bytes) {
    std::int64_t freed = 0;
    while (freed < missing_bytes && !values_.droppable().empty()) {
        ValueId const id = values_.droppable().rbegin()->second;
        freed += values_.find(id)->size_bytes;
        drop(id);
    }
    return freed;
}

/// What nobody needs any more and a copy still uses: its bytes are free after the copy.
std::int64_t Executor::Impl::wait_for_orphans(std::int64_t missing_bytes) {
    std::vector<ValueId> waited_for;
    std::int64_t freed = 0;
    for (auto const& [distance, id] : values_.orphans()) {
        Value const& value = *values_.find(id);
        if (freed >= missing_bytes) {
            break;
        }
        if (value.device == OnDevice::none) {
            continue;
        }
        if (value.device == OnDevice::returning) {
            give_up_target(id, value);
        } else {
            say_wait(value.store_fence);
        }
        freed += value.size_bytes;
        waited_for.push_back(id);
    }
    for (ValueId const id : waited_for) {
        values_.alter(id, *values_.find(id), [](Value& v) { v.device = OnDevice::none; });
    }
    return freed;
}

std::int64_t Executor::Impl::store_and_drop(std::int64_t missing_bytes, bool last_resort) {
    if (missing_bytes <= 0) {
        return 0;
    }
    std::vector<ValueId> candidates;
    for (auto const& [distance, id] : last_resort ? values_.last_resort() : values_.storable()) {
        candidates.push_back(id);
    }
    std::vector<ValueId> leaving;
    std::int64_t freed = 0;
    for (auto id = candidates.rbegin(); id != candidates.rend() && freed < missing_bytes; ++id) {
        if (start_store(*id, true)) {  // one that fits nowhere does not stop smaller ones
            freed += values_.find(*id)->size_bytes;
            leaving.push_back(*id);
        }
    }
    for (ValueId const id : leaving) {
        drop(id);
    }
    return freed;
}

/// Why values that could leave cannot leave for `pool`.
PoolRefusal Executor::Impl::refusal_of(Pool pool) {
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
    auto const refusal = refusals_.find(pool);
    return refusal == refusals_.end() ? PoolRefusal{PoolState::full, ""}
                                      : PoolRefusal{PoolState::failed, refusal->second};
}

/// Nothing eligible is left: the reply is one `raise`, and what was started for room stays done.
void Executor::Impl::refuse(Short const& event, std::int64_t freed_bytes) {
    Refusal refusal{
        .asked_bytes = event.size_bytes,
        .used_bytes = event.usage.used_bytes,
        .limit_bytes = options_.device_bytes,
        .freed_bytes = freed_bytes,
        // Whole pages: a limit is rounded down to them, and what is told here may become one.
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
    say(CommandKind::raise, Lane::compute, held).told = std::move(refusal);
}

void Executor::Impl::release_block(Value const& value) {
    if (value.away == Away::none) {
        return;
    }
    ledger_.give(value.pool, value.block_bytes);
    if (value.has_room) {
        Command& release = say(CommandKind::release, store_lane(value.pool));
        release.block = value.block;
        release.pool = value.pool;
        release.size_bytes = value.block_bytes;
    }
}

/// A value that nothing refers to: gives back its block and, on its way back, its device room.
void Executor::Impl::end_orphan(ValueId id, Value& value) {
    if (value.away == Away::storing || value.loads > 0) {
        return;
    }
    if (value.device == OnDevice::returning) {
        Command& release = say(CommandKind::release, Lane::compute, id);
        release.pool = Pool::device;
        release.size_bytes = value.size_bytes;
    }
    release_block(value);
    values_.erase(id);
}

/// The copy of a value that may be written is from now on one that nothing refers to, under an id
/// below those of values; the value has none.
void Executor::Impl::leave_copy_behind(ValueId id, Value& value) {
    ValueId const behind{kFirstBehind - copies_left_behind_++};
    for (auto& [command, flight] : flights_) {
        if (flight.value == id && flight.work != Work::drop) {
            flight.value = behind;
        }
    }
    Value copy = value;
    copy.device = OnDevice::none;
    copy.orphan = true;
    values_.alter(id, value, [](Value& v) {
        v.away = Away::none;
        v.block = {};
        v.loads = 0;
    });
    end_orphan(behind, values_.add(behind, copy));
}

void Executor::Impl::away_refused(Value const& value, Failed const& event) {
    if (event.why.empty()) {
        return;
    }
    ledger_.close(value.pool);
    refusals_.emplace(value.pool, event.why);
    if (told_full_.insert(value.pool).second) {
        say(CommandKind::note, Lane::compute).told =
            Notice{NoticeCode::pool_closed, value.pool, event.why};
    }
}

/// Its code cannot hold the value; its store fails with it, which is no fault of the tier. Without
/// room it was not tried.
void Executor::Impl::encode_failed(ValueId id, Value& value, Failed const& event) {
    if (!value.has_room) {
        return;
    }
    values_.alter(id, value, [](Value& v) { v.encoded_bytes = 0; });
    if (!event.why.empty()) {
        say(CommandKind::note, Lane::compute).told =
            Notice{NoticeCode::not_encoded, Pool::device, event.why};
    }
}

void Executor::Impl::store_failed(ValueId id, Value& value, Failed const& event) {
    bool const encode_has_failed = value.block_is_coded && value.encoded_bytes == 0;
    release_block(value);
    if (!encode_has_failed) {
        away_refused(value, event);
    }
    values_.alter(id, value, [](Value& v) {
        v.away = Away::none;
        v.block = {};
    });
    if (value.orphan) {
        end_orphan(id, value);
    }
}

void Executor::Impl::load_ended(ValueId id, Value& value, bool well) {
    bool const has_room = value.device != OnDevice::none;
    values_.alter(id, value, [&](Value& v) {
        v.load_ended = true;
        if (!well && !v.orphan) {
            v.device = OnDevice::none;
        }
    });
    if (value.orphan) {
        end_orphan(id, value);
        return;
    }
    if (!well && has_room) {
        Command& release = say(CommandKind::release, Lane::compute, id);
        release.pool = Pool::device;
        release.size_bytes = value.size_bytes;
    }
}

}  // namespace spillway
