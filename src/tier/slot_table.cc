// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/slot_table.h"

#include <algorithm>

namespace spillway {

namespace {

std::size_t index_of(Direction way) {
    return static_cast<std::size_t>(way);
}

}  // namespace

std::int64_t SlotTable::add(
    std::int64_t place, std::int64_t size_bytes, std::int64_t rounded_bytes, std::int64_t pieces
) {
    MutexLock const lock(guard_);
    std::int64_t number = std::ssize(slots_);
    if (unused_.empty()) {
        slots_.emplace_back();
    } else {
        number = unused_.back();
        unused_.pop_back();
    }
    TierSlot& slot = slots_[static_cast<std::size_t>(number)];
    slot.place = place;
    slot.size_bytes = size_bytes;
    slot.rounded_bytes = rounded_bytes;
    slot.stored_bytes = 0;
    slot.checksums.assign(static_cast<std::size_t>(pieces), 0);
    slot.taken = true;
    slot.stored = false;
    counters_.used_bytes += rounded_bytes;
    counters_.peak_used_bytes = std::max(counters_.peak_used_bytes, counters_.used_bytes);
    return number;
}

SlotTable::Place SlotTable::remove(std::int64_t number) noexcept {
    MutexLock const lock(guard_);
    TierSlot& slot = slots_[static_cast<std::size_t>(number)];
    SPILLWAY_ASSERT(slot.taken, "a slot is given back twice");
    SPILLWAY_ASSERT(
        slot.stores_in_flight == 0 && slot.loads_in_flight == 0,
        "a Reservation must outlive the stores and loads that name it"
    );
    slot.taken = false;
    counters_.used_bytes -= slot.rounded_bytes;
    unused_.push_back(number);
    return {slot.place, slot.size_bytes};
}

Result<TierSlot*> SlotTable::begin(std::int64_t number, Direction way, std::int64_t size_bytes) {
    MutexLock const lock(guard_);
    SPILLWAY_ASSERT(number >= 0 && number < std::ssize(slots_), "no such slot");
    TierSlot& slot = slots_[static_cast<std::size_t>(number)];
    SPILLWAY_ASSERT(slot.taken, "a store or load needs a reservation");
    SPILLWAY_ASSERT(slot.stores_in_flight == 0, "a block is used before its store has ended");
    if (way == Direction::load) {
        if (!slot.stored) {
            return Error{Errc::bad_argument, "a block is loaded that was never stored", ""};
        }
        SPILLWAY_ASSERT(slot.stored_bytes == size_bytes, "a load brings what was stored, whole");
        ++slot.loads_in_flight;
    } else {
        bool const fits = size_bytes > 0 && size_bytes <= slot.size_bytes;
        SPILLWAY_ASSERT(fits, "a block has at least one byte and fits its reservation");
        SPILLWAY_ASSERT(slot.loads_in_flight == 0, "a block is stored over while it is loaded");
        slot.stored = false;
        slot.stored_bytes = size_bytes;
        ++slot.stores_in_flight;
    }
    if (in_flight_[index_of(way)]++ == 0) {
        busy_since_[index_of(way)] = Clock::now();
    }
    return &slot;
}

void SlotTable::end(std::int64_t number, Direction way, bool ok) noexcept {
    MutexLock const lock(guard_);
    TierSlot& slot = slots_[static_cast<std::size_t>(number)];
    bool const is_store = way == Direction::store;
    if (is_store) {
        --slot.stores_in_flight;
        slot.stored = ok;
    } else {
        --slot.loads_in_flight;
    }
    if (ok) {
        (is_store ? counters_.stored_bytes : counters_.loaded_bytes) += slot.stored_bytes;
    }
    if (--in_flight_[index_of(way)] == 0) {
        auto const busy = Clock::now() - busy_since_[index_of(way)];
        (is_store ? counters_.store_ns : counters_.load_ns) +=
            std::chrono::duration_cast<std::chrono::nanoseconds>(busy).count();
    }
}

TierCounters SlotTable::counters() const {
    MutexLock const lock(guard_);
    TierCounters now = counters_;
    for (Direction const way : {Direction::store, Direction::load}) {
        if (in_flight_[index_of(way)] > 0) {
            auto const busy = Clock::now() - busy_since_[index_of(way)];
            (way == Direction::store ? now.store_ns : now.load_ns) +=
                std::chrono::duration_cast<std::chrono::nanoseconds>(busy).count();
        }
    }
    return now;
}

SlotTable::Place SlotTable::place_of(std::int64_t number) const {
    MutexLock const lock(guard_);
    SPILLWAY_ASSERT(number >= 0 && number < std::ssize(slots_), "no such slot");
    TierSlot const& slot = slots_[static_cast<std::size_t>(number)];
    SPILLWAY_ASSERT(slot.taken, "only a reserved slot has a place");
    return {slot.place, slot.size_bytes};
}

Result<TierSlot const*> SlotTable::at_rest(std::int64_t number) const {
    MutexLock const lock(guard_);
    TierSlot const& slot = slots_[static_cast<std::size_t>(number)];
    if (!slot.taken || !slot.stored || slot.stores_in_flight + slot.loads_in_flight > 0) {
        return Error{Errc::bad_argument, "no block lies there, or it is under way", ""};
    }
    return &slot;
}

}  // namespace spillway
