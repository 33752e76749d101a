// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/transfers.h"

#include "base/assert.h"
#include "base/ordering_rules.h"

#include <algorithm>
#include <array>
#include <utility>

namespace spillway {

namespace {

constexpr Lane store_lane(Pool pool) {
    return pool == Pool::host ? Lane::copy_out : Lane::nvme_write;
}
constexpr Lane load_lane(Pool pool) {
    return pool == Pool::host ? Lane::copy_in : Lane::nvme_read;
}

}  // namespace

bool Transfers::start_store(ValueId id, bool anywhere) {
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
void Transfers::store_in(Pool pool, ValueId id, Value& value) {
    Copy copy{
        .block = BlockId{next_block_++},
        .pool = pool,
        .size_bytes = value.away_bytes(),
        .store_fence = {},
        .is_coded = value.encoded_bytes > 0};
    Command& reserve = reply_.add(CommandKind::reserve, store_lane(pool), id);
    reserve.block = copy.block;
    reserve.pool = pool;
    reserve.size_bytes = copy.size_bytes;
    CommandId const reserved = reserve.id;
    flights_[reserved] = {Work::reserve_away, id};
    CommandId ready = reserved;
    if (copy.is_coded) {
        ready = reply_.add_run(SideWork::encode, id, copy.block, value.size_bytes, reserved);
        flights_[ready] = {Work::encode, id};
    }
    Command& store = reply_.add(CommandKind::store, store_lane(pool), id);
    store.block = copy.block;
    store.pool = pool;
    store.size_bytes = copy.size_bytes;
    store.after = {ready};
    flights_[store.id] = {Work::store, id, reserved};
    copy.store_fence = store.id;
    values_.alter(id, value, [&](Value& v) { v.copy = copy; });
}

/// Of a value that is away there is a copy; where one can be made again, the choice is here.
void Transfers::bring_back(ValueId id, Value& value, bool optional) {
    SPILLWAY_ASSERT(value.copy.has_value(), "a value goes only when a copy holds it");
    Command& reserve = reply_.add(CommandKind::reserve, load_lane(value.copy->pool), id);
    reserve.pool = Pool::device;
    reserve.size_bytes = value.size_bytes;
    reserve.optional = optional;
    CommandId const fence = load(id, value, reserve.id);
    used_bytes_ += value.size_bytes;
    values_.alter(id, value, [&](Value& v) {
        v.way_back = Return{fence};
        v.loads = {v.loads.in_flight + 1, fence};
    });
}

/// [load], or [load, decode], of the value's copy; its fence.
CommandId Transfers::load(ValueId id, Value const& value, CommandId after) {
    Copy const& copy = *value.copy;
    Command& load = reply_.add(CommandKind::load, load_lane(copy.pool), id);
    load.block = copy.block;
    load.pool = copy.pool;
    load.size_bytes = copy.size_bytes;
    load.after = {after};
    if (!copy.is_stored) {
        load.after.push_back(copy.store_fence);
    }
    CommandId fence = load.id;
    if (copy.is_coded) {
        fence = reply_.add_run(SideWork::decode, id, copy.block, value.size_bytes, fence);
    }
    flights_[fence] = {Work::load, id};
    return fence;
}

void Transfers::bind(ValueId id, Value& value) {
    CommandId const fence = value.way_back->fence;
    if (keeps(OrderingRule::need_waits_for_the_load)) {
        reply_.add_wait(fence);
    }
    reply_.add(CommandKind::bind, Lane::compute, id).after = {fence};
    values_.alter(id, value, [](Value& v) {
        v.on_device = true;
        v.way_back.reset();
    });
}

/// [wait, release]
void Transfers::give_up_return(ValueId id, Value const& value) {
    if (keeps(OrderingRule::release_waits_for_the_load)) {
        reply_.add_wait(value.way_back->fence);
    }
    reply_.add_device_release(id, value.size_bytes);
}

void Transfers::drop(ValueId id) {
    Value* const value = values_.find(id);
    if (value->way_back) {
        give_up_return(id, *value);
    } else {
        CommandId const stored = value->copy->store_fence;
        reply_.add_wait(stored);
        Command& gone = reply_.add(CommandKind::drop, Lane::compute, id);
        gone.size_bytes = value->size_bytes;
        gone.after = {stored};
        flights_[gone.id] = {Work::drop, id};
    }
    used_bytes_ -= value->size_bytes;
    values_.alter(id, *value, [](Value& v) {
        v.on_device = false;
        v.way_back.reset();
    });
}

void Transfers::wait_for_orphan(ValueId id) {
    Value* const value = values_.find(id);
    if (value->way_back) {
        give_up_return(id, *value);
    } else {
        reply_.add_wait(value->copy->store_fence);
        used_bytes_ -= value->size_bytes;
    }
    values_.alter(id, *value, [](Value& v) {
        v.on_device = false;
        v.way_back.reset();
    });
}

void Transfers::forget(ValueId id, Value& value) {
    bool const storing = value.is_being_stored() && keeps(OrderingRule::room_outlives_the_store);
    bool const loading = value.loads.in_flight > 0 && keeps(OrderingRule::room_outlives_the_load);
    if (!storing && !loading) {
        end_orphan(id, value);
        return;
    }
    values_.alter(id, value, [&](Value& v) {
        v.orphan = true;
        // Bound in stream order while its copy runs: the bytes went with the tensor.
        v.on_device = v.on_device && !loading;
    });
}

/// A value that nothing refers to: gives back its block and, on its way back, its device room.
void Transfers::end_orphan(ValueId id, Value& value) {
    if (value.is_being_stored() || value.loads.in_flight > 0) {
        return;
    }
    if (value.way_back) {
        reply_.add_device_release(id, value.size_bytes);
    }
    if (value.copy) {
        release(*value.copy);
    }
    values_.erase(id);
}

void Transfers::release(Copy const& copy) {
    ledger_.give(copy.pool, copy.size_bytes);
    if (copy.has_room) {
        Command& release = reply_.add(CommandKind::release, store_lane(copy.pool));
        release.block = copy.block;
        release.pool = copy.pool;
        release.size_bytes = copy.size_bytes;
    }
}

void Transfers::leave_copy_behind(ValueId id, Value& value) {
    if (!value.on_device || !value.copy) {
        return;
    }
    if (value.is_being_stored() && keeps(OrderingRule::write_waits_for_the_store)) {
        reply_.add_wait(value.copy->store_fence);
    }
    BlockId const block = value.copy->block;
    for (auto& [command, flight] : flights_) {
        if (flight.value == id && !flight.behind.valid() && flight.work != Work::drop) {
            flight.behind = block;
        }
    }
    left_behind_[block] = {.copy = *value.copy, .loads = value.loads};
    values_.alter(id, value, [](Value& v) {
        v.copy.reset();
        v.loads.in_flight = 0;
    });
    end_left_behind(block);
}

void Transfers::end_left_behind(BlockId block) {
    LeftBehind const& left = left_behind_.at(block);
    if ((!left.is_gone && !left.copy.is_stored) || left.loads.in_flight > 0) {
        return;
    }
    if (!left.is_gone) {
        release(left.copy);
    }
    left_behind_.erase(block);
}

/// Takes what ended with `command` out of what is in flight; without a value where nobody waits.
Transfers::Flight Transfers::end_flight(CommandId command) {
    auto const at = flights_.find(command);
    if (at == flights_.end()) {
        return {};
    }
    Flight const flight = at->second;
    flights_.erase(at);
    flights_.erase(flight.reserve);
    return flight;
}

void Transfers::ended(CommandId command) {
    Flight const flight = end_flight(command);
    if (flight.behind.valid()) {
        left_behind_ended(flight, command, nullptr);
        return;
    }
    Value* const value = values_.find(flight.value);
    if (value == nullptr) {
        return;
    }
    if (flight.work == Work::store) {
        store_ended(flight.value, *value, nullptr);
    } else if (flight.work == Work::load) {
        load_ended(flight.value, *value, command, true);
    }
}

void Transfers::failed(Failed const& event) {
    Flight const flight = end_flight(event.command);
    if (flight.behind.valid()) {
        left_behind_ended(flight, event.command, &event);
        return;
    }
    Value* const value = values_.find(flight.value);
    if (value != nullptr) {
        value_failed(flight, *value, event);
    }
}

void Transfers::value_failed(Flight const& flight, Value& value, Failed const& event) {
    switch (flight.work) {
        case Work::reserve_away:
            value.copy->has_room = false;  // its store fails with it
            return;
        case Work::encode:
            if (value.copy && value.copy->has_room) {  // else it was not tried
                encode_failed(*value.copy, event.why);
                values_.alter(flight.value, value, [](Value& v) { v.encoded_bytes = 0; });
            }
            return;
        case Work::store:
            store_ended(flight.value, value, &event);
            return;
        case Work::load:
            if (value.loads.last == event.command && !event.why.empty()) {
                reply_.add_note({NoticeCode::not_loaded, Pool::device, event.why});
            }
            load_ended(flight.value, value, event.command, false);
            return;
        case Work::drop:
            values_.alter(flight.value, value, [](Value& v) {
                v.on_device = true;
                v.way_back.reset();
                v.unshared = true;
            });
            return;
    }
}

void Transfers::store_ended(ValueId id, Value& value, Failed const* failure) {
    if (failure == nullptr) {
        value.copy->is_stored = true;
    } else {
        store_failed(*value.copy, failure->why);
        values_.alter(id, value, [](Value& v) { v.copy.reset(); });
    }
    if (value.orphan) {
        end_orphan(id, value);
    }
}

/// Of the value's present return, or of one that was given up while it flew.
void Transfers::load_ended(ValueId id, Value& value, CommandId fence, bool well) {
    --value.loads.in_flight;
    bool const is_last = value.loads.last == fence;
    if (is_last) {
        value.loads.last = {};
    }
    if (value.orphan) {
        end_orphan(id, value);
    } else if (is_last && !well && value.takes_device_bytes()) {
        values_.alter(id, value, [](Value& v) {
            v.on_device = false;
            v.way_back.reset();
        });
        reply_.add_device_release(id, value.size_bytes);
    }
}

void Transfers::left_behind_ended(Flight const& flight, CommandId command, Failed const* failure) {
    auto const at = left_behind_.find(flight.behind);
    if (at == left_behind_.end()) {
        return;  // an encode that was not tried ends after its store
    }
    LeftBehind& left = at->second;
    switch (flight.work) {
        case Work::reserve_away:
            left.copy.has_room = left.copy.has_room && failure == nullptr;
            return;
        case Work::encode:
            if (failure != nullptr && left.copy.has_room) {
                encode_failed(left.copy, failure->why);
            }
            return;
        case Work::store:
            if (failure != nullptr) {
                store_failed(left.copy, failure->why);
                left.is_gone = true;
            }
            left.copy.is_stored = failure == nullptr;
            break;
        case Work::load:
            --left.loads.in_flight;
            if (failure != nullptr && left.loads.last == command && !failure->why.empty()) {
                reply_.add_note({NoticeCode::not_loaded, Pool::device, failure->why});
            }
            break;
        case Work::drop:
            return;  // is of the value
    }
    end_left_behind(flight.behind);
}

/// Its code cannot hold the value; its store fails with it.
void Transfers::encode_failed(Copy& copy, std::string const& why) {
    copy.encode_failed = true;
    if (!why.empty()) {
        reply_.add_note({NoticeCode::not_encoded, Pool::device, why});
    }
}

void Transfers::store_failed(Copy const& copy, std::string const& why) {
    release(copy);
    if (!copy.encode_failed && !why.empty()) {
        pool_refused(copy.pool, why);
    }
}

void Transfers::pool_refused(Pool pool, std::string const& why) {
    if (ledger_.close(pool, why)) {
        reply_.add_note({NoticeCode::pool_closed, pool, why});
    }
}

}  // namespace spillway
