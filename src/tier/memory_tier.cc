// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/memory_tier.h"

#include "base/units.h"
#include "tier/checksum.h"

#include <fmt/format.h>

#include <new>

namespace spillway {

MemoryTier::~MemoryTier() {
    SPILLWAY_ASSERT(blocks_.empty(), "a Reservation outlives its tier");
}

Result<std::int64_t> MemoryTier::take_slot(std::int64_t size_bytes) {
    MutexLock const lock(guard_);
    std::int64_t const left = capacity_bytes_ - used_bytes_;
    std::unique_ptr<std::byte[]> block;
    if (size_bytes <= left) {
        block.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(size_bytes)]);
    }
    if (block == nullptr) {
        return Error{
            Errc::tier_full,
            fmt::format(
                "{} were asked for, {} are left", format_size(size_bytes), format_size(left)
            ),
            name()};
    }
    used_bytes_ += size_bytes;
    std::int64_t const slot =
        slots_.add(0, size_bytes, size_bytes, pieces_of(size_bytes, kMemoryPieceBytes));
    blocks_.emplace(slot, std::move(block));
    return slot;
}

void MemoryTier::give_slot_back(std::int64_t slot) noexcept {
    MutexLock const lock(guard_);
    used_bytes_ -= slots_.remove(slot).size_bytes;
    blocks_.erase(slot);
}

std::byte* MemoryTier::bytes_of(std::int64_t slot) {
    MutexLock const lock(guard_);
    return blocks_.at(slot).get();
}

void MemoryTier::store(Reservation const& room, std::span<std::byte const> from, TierDone done) {
    Result<TierSlot*> slot = slots_.begin(room.slot(), Direction::store, std::ssize(from));
    if (!slot.ok()) {
        done(slot.error());
        return;
    }
    copy_and_sum(from, bytes_of(room.slot()), (*slot)->checksums);
    slots_.end(room.slot(), Direction::store, true);
    done({});
}

void MemoryTier::load(Reservation const& room, std::span<std::byte> to, TierDone done) {
    Result<TierSlot*> slot = slots_.begin(room.slot(), Direction::load, std::ssize(to));
    if (!slot.ok()) {
        done(Error{slot.error().code, slot.error().what, name()});
        return;
    }
    Result<void> const checked = copy_and_check(
        {bytes_of(room.slot()), to.size()},
        to.data(),
        (*slot)->checksums,
        fmt::format("{}, slot {}", name(), room.slot()),
        0
    );
    slots_.end(room.slot(), Direction::load, checked.ok());
    done(checked);
}

Result<void> MemoryTier::damage(
    Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
) {
    Result<TierSlot const*> const slot = slots_.at_rest(room.slot());
    if (!slot.ok()) {
        return slot.error();
    }
    std::byte* const bytes = bytes_of(room.slot());
    for (std::int64_t i = first; i < first + count; ++i) {
        bytes[i] ^= mask;
    }
    return {};
}

}  // namespace spillway
