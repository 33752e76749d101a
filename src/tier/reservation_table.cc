// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/reservation_table.h"

#include <algorithm>

namespace spillway {

std::int64_t ReservationTable::add(
    std::int64_t place, std::int64_t size_bytes, std::int64_t rounded_bytes, std::int64_t pieces
) {
    MutexLock const lock(guard_);
    std::int64_t number = std::ssize(entries_);
    if (unused_.empty()) {
        entries_.emplace_back();
    } else {
        number = unused_.back();
        unused_.pop_back();
    }
    TierEntry& entry = entries_[static_cast<std::size_t>(number)];
    entry.place = place;
    entry.size_bytes = size_bytes;
    entry.rounded_bytes = rounded_bytes;
    entry.stored_bytes = 0;
    entry.checksums.assign(static_cast<std::size_t>(pieces), 0);
    entry.taken = true;
    entry.stored = false;
    counters_.used_bytes += rounded_bytes;
    counters_.peak_used_bytes = std::max(counters_.peak_used_bytes, counters_.used_bytes);
    return number;
}

ReservationTable::Place ReservationTable::remove(std::int64_t number) noexcept {
    MutexLock const lock(guard_);
    TierEntry& entry = entries_[static_cast<std::size_t>(number)];
    SPILLWAY_ASSERT(entry.taken, "an entry is given back twice");
    SPILLWAY_ASSERT(
        entry.stores_in_flight == 0 && entry.loads_in_flight == 0,
        "a Reservation must outlive the stores and loads that name it"
    );
    entry.taken = false;
    counters_.used_bytes -= entry.rounded_bytes;
    unused_.push_back(number);
    return {entry.place, entry.size_bytes};
}

Result<TierEntry*> ReservationTable::begin(
    std::int64_t number, Direction way, std::int64_t size_bytes
) {
    MutexLock const lock(guard_);
    SPILLWAY_ASSERT(number >= 0 && number < std::ssize(entries_), "no such entry");
    TierEntry& entry = entries_[static_cast<std::size_t>(number)];
    SPILLWAY_ASSERT(entry.taken, "a store or load needs a reservation");
    SPILLWAY_ASSERT(entry.stores_in_flight == 0, "a block is used before its store has ended");
    if (way == Direction::load) {
        if (!entry.stored) {
            return Error{Errc::bad_argument, "a block is loaded that was never stored", ""};
        }
        SPILLWAY_ASSERT(entry.stored_bytes == size_bytes, "a load brings what was stored, whole");
        ++entry.loads_in_flight;
    } else {
        bool const fits = size_bytes > 0 && size_bytes <= entry.size_bytes;
        SPILLWAY_ASSERT(fits, "a block has at least one byte and fits its reservation");
        SPILLWAY_ASSERT(entry.loads_in_flight == 0, "a block is stored over while it is loaded");
        entry.stored = false;
        entry.stored_bytes = size_bytes;
        ++entry.stores_in_flight;
    }
    if (in_flight_[index_of(way)]++ == 0) {
        busy_since_[index_of(way)] = Clock::now();
    }
    return &entry;
}

void ReservationTable::end(std::int64_t number, Direction way, bool ok) noexcept {
    MutexLock const lock(guard_);
    TierEntry& entry = entries_[static_cast<std::size_t>(number)];
    bool const is_store = way == Direction::store;
    if (is_store) {
        --entry.stores_in_flight;
        entry.stored = ok;
    } else {
        --entry.loads_in_flight;
    }
    if (ok) {
        (is_store ? counters_.stored_bytes : counters_.loaded_bytes) += entry.stored_bytes;
    }
    if (--in_flight_[index_of(way)] == 0) {
        auto const busy = Clock::now() - busy_since_[index_of(way)];
        (is_store ? counters_.store_ns : counters_.load_ns) +=
            std::chrono::duration_cast<std::chrono::nanoseconds>(busy).count();
    }
}

TierCounters ReservationTable::counters() const {
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

void ReservationTable::count_afresh() {
    MutexLock const lock(guard_);
    SPILLWAY_ASSERT(in_flight_[0] + in_flight_[1] == 0, "what is under way would count by half");
    counters_ = {.used_bytes = counters_.used_bytes, .peak_used_bytes = counters_.used_bytes};
}

ReservationTable::Place ReservationTable::place_of(std::int64_t number) const {
    MutexLock const lock(guard_);
    SPILLWAY_ASSERT(number >= 0 && number < std::ssize(entries_), "no such entry");
    TierEntry const& entry = entries_[static_cast<std::size_t>(number)];
    SPILLWAY_ASSERT(entry.taken, "only a reserved entry has a place");
    return {entry.place, entry.size_bytes};
}

Result<TierEntry const*> ReservationTable::at_rest(std::int64_t number) const {
    MutexLock const lock(guard_);
    TierEntry const& entry = entries_[static_cast<std::size_t>(number)];
    if (!entry.taken || !entry.stored || entry.stores_in_flight + entry.loads_in_flight > 0) {
        return Error{Errc::bad_argument, "no block lies there, or it is under way", ""};
    }
    return &entry;
}

}  // namespace spillway
