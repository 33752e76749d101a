// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/host_tier.h"

#include "base/units.h"
#include "tier/checksum.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

namespace spillway {

namespace {

constexpr std::int64_t kPageBytes = 4096;

}  // namespace

Result<std::unique_ptr<Tier>> HostTier::open(std::int64_t capacity_bytes) {
    if (capacity_bytes < kPageBytes) {
        return Error{
            Errc::bad_argument,
            fmt::format("a capacity of {} is less than a page", format_size(capacity_bytes)),
            "host tier"};
    }
    std::int64_t const size_bytes = capacity_bytes / kPageBytes * kPageBytes;
    void* const arena = ::mmap(
        nullptr,
        static_cast<std::size_t>(size_bytes),
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
        -1,
        0
    );
    if (arena == MAP_FAILED) {
        return Error{
            Errc::out_of_memory,
            fmt::format("the system refuses {} of memory", format_size(size_bytes)),
            "host tier"};
    }
    return std::unique_ptr<Tier>(new HostTier(static_cast<std::byte*>(arena), size_bytes));
}

HostTier::HostTier(std::byte* arena, std::int64_t capacity_bytes)
    : arena_(arena), pool_(capacity_bytes, kPageBytes), worker_([this] { run_copies(); }) {}

HostTier::~HostTier() {
    {
        std::lock_guard const lock(guard_);
        stopping_ = true;
    }
    changed_.notify_all();
    worker_.join();
    SPILLWAY_ASSERT(
        pool_.free_bytes() == pool_.capacity_bytes(), "a Reservation outlives its tier"
    );
    ::munmap(arena_, static_cast<std::size_t>(pool_.capacity_bytes()));
}

Result<std::int64_t> HostTier::take_slot(std::int64_t size_bytes) {
    std::lock_guard const lock(pool_guard_);
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
    return slots_.add(
        *first, size_bytes, pool_.rounded(size_bytes), pieces_of(size_bytes, kMemoryPieceBytes)
    );
}

void HostTier::give_slot_back(std::int64_t slot) noexcept {
    std::lock_guard const lock(pool_guard_);
    SlotTable::Place const place = slots_.remove(slot);
    pool_.give_back(place.first, place.size_bytes);
}

void HostTier::store(Reservation const& room, std::span<std::byte const> from, TierDone done) {
    Result<TierSlot*> slot = slots_.begin(room.slot(), Direction::store, std::ssize(from));
    if (!slot.ok()) {
        done(Error{slot.error().code, slot.error().what, name()});
        return;
    }
    enqueue({Direction::store, room.slot(), *slot, from, {}, std::move(done)});
}

void HostTier::load(Reservation const& room, std::span<std::byte> to, TierDone done) {
    Result<TierSlot*> slot = slots_.begin(room.slot(), Direction::load, std::ssize(to));
    if (!slot.ok()) {
        done(Error{slot.error().code, slot.error().what, name()});
        return;
    }
    enqueue({Direction::load, room.slot(), *slot, {}, to, std::move(done)});
}

void HostTier::enqueue(Copy copy) {
    {
        std::lock_guard const lock(guard_);
        copies_.push_back(std::move(copy));
    }
    changed_.notify_one();
}

void HostTier::run_copies() {
    std::unique_lock lock(guard_);
    while (true) {
        changed_.wait(lock, [this] { return stopping_ || !copies_.empty(); });
        if (copies_.empty()) {
            return;
        }
        Copy const copy = std::move(copies_.front());
        copies_.pop_front();
        lock.unlock();
        run_copy(copy);
        lock.lock();
    }
}

void HostTier::run_copy(Copy const& copy) {
    std::byte* const bytes = arena_ + copy.slot->place;
    Result<void> result;
    if (copy.way == Direction::store) {
        copy_and_sum(copy.from, bytes, copy.slot->checksums);
    } else {
        result = copy_and_check(
            {bytes, copy.to.size()}, copy.to.data(), copy.slot->checksums, name(), copy.slot->place
        );
    }
    slots_.end(copy.slot_number, copy.way, result.ok());
    copy.done(std::move(result));
}

Result<void> HostTier::damage(
    Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
) {
    Result<TierSlot const*> const slot = slots_.at_rest(room.slot());
    if (!slot.ok()) {
        return slot.error();
    }
    std::byte* const bytes = arena_ + (*slot)->place;
    for (std::int64_t i = first; i < first + count; ++i) {
        bytes[i] ^= mask;
    }
    return {};
}

}  // namespace spillway
