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

Result<std::int64_t> MemoryTier::take_entry(std::int64_t size_bytes) {
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
    std::int64_t const entry =
        entries_.add(0, size_bytes, size_bytes, pieces_of(size_bytes, kMemoryPieceBytes));
    blocks_.emplace(entry, std::move(block));
    return entry;
}

void MemoryTier::give_entry_back(std::int64_t entry) noexcept {
    MutexLock const lock(guard_);
    used_bytes_ -= entries_.remove(entry).size_bytes;
    blocks_.erase(entry);
}

std::byte* MemoryTier::bytes_of(std::int64_t entry) {
    MutexLock const lock(guard_);
    return blocks_.at(entry).get();
}

void MemoryTier::store(Reservation const& room, std::span<std::byte const> from, TierDone done) {
    Result<TierEntry*> entry = entries_.begin(room.entry(), Direction::store, std::ssize(from));
    if (!entry.ok()) {
        done(entry.error());
        return;
    }
    copy_and_sum(from, bytes_of(room.entry()), (*entry)->checksums);
    entries_.end(room.entry(), Direction::store, true);
    done({});
}

void MemoryTier::load(Reservation const& room, std::span<std::byte> to, TierDone done) {
    Result<TierEntry*> entry = entries_.begin(room.entry(), Direction::load, std::ssize(to));
    if (!entry.ok()) {
        done(Error{entry.error().code, entry.error().what, name()});
        return;
    }
    Result<void> const checked = copy_and_check(
        {bytes_of(room.entry()), to.size()},
        to.data(),
        (*entry)->checksums,
        fmt::format("{}, entry {}", name(), room.entry()),
        0
    );
    entries_.end(room.entry(), Direction::load, checked.ok());
    done(checked);
}

Result<void> MemoryTier::damage(
    Reservation const& room, std::int64_t first, std::int64_t count, std::byte mask
) {
    Result<TierEntry const*> const entry = entries_.at_rest(room.entry());
    if (!entry.ok()) {
        return entry.error();
    }
    std::byte* const bytes = bytes_of(room.entry());
    for (std::int64_t i = first; i < first + count; ++i) {
        bytes[i] ^= mask;
    }
    return {};
}

}  // namespace spillway
