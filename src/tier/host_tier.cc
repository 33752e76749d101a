// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/host_tier.h"

#include "base/units.h"
#include "tier/checksum.h"

#include <fmt/format.h>

#include <utility>

namespace spillway {

namespace {

constexpr std::int64_t kPageBytes = 4096;

}  // namespace

Result<std::unique_ptr<Tier>> HostTier::open(std::int64_t capacity_bytes) {
    Result<HostMemory> arena = map_host_memory(capacity_bytes);
    if (!arena.ok()) {
        return Error{arena.error().code, arena.error().what, "host tier"};
    }
    return open(std::move(arena).value());
}

std::unique_ptr<Tier> HostTier::open(HostMemory arena) {
    return std::unique_ptr<Tier>(new HostTier(std::move(arena)));
}

HostTier::HostTier(HostMemory arena)
    : arena_(std::move(arena)),
      pool_(std::ssize(arena_.bytes()), kPageBytes),
      capacity_bytes_(pool_.capacity_bytes()),
      worker_([this] { run_copies(); }) {}

HostTier::~HostTier() {
    {
        MutexLock const lock(guard_);
        stopping_ = true;
    }
    changed_.notify_all();
    worker_.join();
    SPILLWAY_ASSERT(
        pool_.free_bytes() == pool_.capacity_bytes(), "a Reservation outlives its tier"
    );
}

Result<std::int64_t> HostTier::take_entry(std::int64_t size_bytes) {
    MutexLock const lock(pool_guard_);
    std::optional<std::int64_t> const first = pool_.take(size_bytes);
    if (!first) {
        return Error{
            Errc::tier_full,
            fmt::format(
                "{} were asked for, {} are left (longest hole {})",
                format_size(size_bytes),
                format_size(pool_.free_bytes()),
                format_size(pool_.longest_hole_bytes())
            ),
            name()};
    }
    return entries_.add(
        *first, size_bytes, pool_.rounded(size_bytes), pieces_of(size_bytes, kMemoryPieceBytes)
    );
}

void HostTier::give_entry_back(std::int64_t entry) noexcept {
    MutexLock const lock(pool_guard_);
    ReservationTable::Place const place = entries_.remove(entry);
    pool_.give_back(place.first, place.size_bytes);
}

void HostTier::store(Reservation const& room, std::span<std::byte const> from, TierDone done) {
    Result<TierEntry*> entry = entries_.begin(room.entry(), Direction::store, std::ssize(from));
    if (!entry.ok()) {
        done(Error{entry.error().code, entry.error().what, name()});
        return;
    }
    enqueue({Direction::store, room.entry(), *entry, from, {}, std::move(done)});
}

void HostTier::load(Reservation const& room, std::span<std::byte> to, TierDone done) {
    Result<TierEntry*> entry = entries_.begin(room.entry(), Direction::load, std::ssize(to));
    if (!entry.ok()) {
        done(Error{entry.error().code, entry.error().what, name()});
        return;
    }
    enqueue({Direction::load, room.entry(), *entry, {}, to, std::move(done)});
}

void HostTier::enqueue(Copy copy) {
    {
        MutexLock const lock(guard_);
        copies_.push_back(std::move(copy));
    }
    changed_.notify_one();
}

void HostTier::run_copies() {
    MutexLock const lock(guard_);
    while (true) {
        changed_.wait(guard_, [this]() SPILLWAY_REQUIRES(guard_) {
            return stopping_ || !copies_.empty();
        });
        if (copies_.empty()) {
            return;
        }
        Copy const copy = std::move(copies_.front());
        copies_.pop_front();
        MutexUnlock const unlocked(guard_);
        run_copy(copy);
    }
}

void HostTier::run_copy(Copy const& copy) {
    std::byte* const bytes = arena_.bytes().data() + copy.entry->place;
    Result<void> result;
    if (copy.way == Direction::store) {
        copy_and_sum(copy.from, bytes, copy.entry->checksums);
    } else {
        result = copy_and_check(
            {bytes, copy.to.size()},
            copy.to.data(),
            copy.entry->checksums,
            name(),
            copy.entry->place
        );
    }
    entries_.end(copy.entry_number, copy.way, result.ok());
    copy.done(std::move(result));
}

std::span<std::byte> HostTier::memory(Reservation const& room) {
    ReservationTable::Place const place = entries_.place_of(room.entry());
    return arena_.bytes().subspan(
        static_cast<std::size_t>(place.first), static_cast<std::size_t>(place.size_bytes)
    );
}

TierCounters HostTier::counters() const {
    TierCounters now = entries_.counters();
    now.requested_bytes = arena_.requested_bytes();
    now.locked_bytes = arena_.locked_bytes();
    return now;
}

Result<void> HostTier::damage(
    Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
) {
    Result<TierEntry const*> const entry = entries_.at_rest(room.entry());
    if (!entry.ok()) {
        return entry.error();
    }
    std::byte* const bytes = arena_.bytes().data() + (*entry)->place;
    for (std::int64_t i = first; i < first + count; ++i) {
        bytes[i] ^= mask;
    }
    return {};
}

}  // namespace spillway
