// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/arena_registry.h"

#include "base/mutex.h"
#include "memory/arena.h"

#include <pthread.h>

#include <array>
#include <atomic>

namespace spillway {

namespace {

// Note [Finding an arena without a lock]
// An entry's range is one word, so it is never seen torn. Whoever asks about a live block asks
// about a mapped range; no other range covers it, and an entry that covered it before was emptied
// before the block existed. So an entry whose range holds the address is the right one, and its
// arena cannot go away while the block lives.
struct ArenaEntry {
    std::atomic<std::uint64_t> range{0};  ///< first unit << 32 | units; 0: empty
    std::atomic<Arena*> arena{nullptr};
};

constexpr std::size_t kChunkEntries = 256;
constexpr std::size_t kChunks = 256;
using Chunk = std::array<ArenaEntry, kChunkEntries>;

// Never destroyed: blocks are freed also while the program's own statics are. Chunks are made when
// the ones before are full, and stay.
constinit Chunk first_chunk{};
constinit std::array<std::atomic<Chunk*>, kChunks> chunks{&first_chunk};
constinit std::atomic<std::size_t> entries_in_use{0};  ///< all at and above it are empty

/// Of a chunk that is there.
ArenaEntry& entry_at(std::size_t i) {
    return (*chunks[i / kChunkEntries].load(std::memory_order_acquire))[i % kChunkEntries];
}

std::uint64_t word_of(std::uint64_t first_unit, std::int64_t size_bytes) {
    return first_unit << 32 | static_cast<std::uint64_t>(size_bytes / kArenaUnitBytes);
}

}  // namespace

constinit Mutex arena_registry_mutex;

// A fork takes no snapshot of an arena in mid-change: it holds every lock meanwhile.
class ArenasAtFork {
  public:
    // Unchecked: how many locks that are is not known before.
    static void prepare() SPILLWAY_LOCKS_UNCHECKED {
        arena_registry_mutex.lock();
        for_each_arena([](Arena& arena) SPILLWAY_LOCKS_UNCHECKED { arena.guard_.lock(); });
    }
    static void resume() SPILLWAY_LOCKS_UNCHECKED {
        for_each_arena([](Arena& arena) SPILLWAY_LOCKS_UNCHECKED { arena.guard_.unlock(); });
        arena_registry_mutex.unlock();
    }

  private:
    template <typename Action>
    static void for_each_arena(Action const& action) {
        std::size_t const in_use = entries_in_use.load(std::memory_order_relaxed);
        for (std::size_t i = 0; i < in_use; ++i) {
            if (entry_at(i).range.load(std::memory_order_relaxed) != 0) {
                action(*entry_at(i).arena.load(std::memory_order_relaxed));
            }
        }
    }
};

Result<std::int64_t> register_arena(Arena* arena, std::byte const* first, std::int64_t size_bytes) {
    auto const first_unit = reinterpret_cast<std::uintptr_t>(first) / kArenaUnitBytes;
    auto const units = static_cast<std::uint64_t>(size_bytes / kArenaUnitBytes);
    SPILLWAY_ASSERT(first_unit >> 32 == 0 && units >> 32 == 0, "the range fits into a word");
    static int const at_fork =
        ::pthread_atfork(&ArenasAtFork::prepare, &ArenasAtFork::resume, &ArenasAtFork::resume);
    SPILLWAY_ASSERT(at_fork == 0, "the system takes a fork handler");
    MutexLock const lock(arena_registry_mutex);
    for (std::size_t i = 0; i < kChunks * kChunkEntries; ++i) {
        std::atomic<Chunk*>& chunk = chunks[i / kChunkEntries];
        if (chunk.load(std::memory_order_relaxed) == nullptr) {
            chunk.store(new Chunk{}, std::memory_order_release);
        }
        ArenaEntry& entry = entry_at(i);
        if (entry.range.load(std::memory_order_relaxed) != 0) {
            continue;
        }
        entry.arena.store(arena, std::memory_order_relaxed);
        entry.range.store(word_of(first_unit, size_bytes), std::memory_order_release);
        if (i >= entries_in_use.load(std::memory_order_relaxed)) {
            entries_in_use.store(i + 1, std::memory_order_release);
        }
        return static_cast<std::int64_t>(i);
    }
    return Error{Errc::unsupported, "too many arenas are open at once", ""};
}

void shorten_arena(std::int64_t entry, std::int64_t size_bytes) noexcept {
    std::atomic<std::uint64_t>& range = entry_at(static_cast<std::size_t>(entry)).range;
    std::uint64_t const first_unit = range.load(std::memory_order_relaxed) >> 32;
    range.store(word_of(first_unit, size_bytes), std::memory_order_release);
}

void forget_arena(std::int64_t entry) noexcept {
    MutexLock const lock(arena_registry_mutex);
    ArenaEntry& emptied = entry_at(static_cast<std::size_t>(entry));
    emptied.range.store(0, std::memory_order_release);
    emptied.arena.store(nullptr, std::memory_order_relaxed);
}

Arena* arena_of(void const* address) noexcept {
    std::uint64_t const unit = reinterpret_cast<std::uintptr_t>(address) / kArenaUnitBytes;
    std::size_t const in_use = entries_in_use.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < in_use; ++i) {
        ArenaEntry const& entry = entry_at(i);
        std::uint64_t const range = entry.range.load(std::memory_order_acquire);
        // Below the first unit the difference wraps around and is large.
        if (unit - (range >> 32) < (range & 0xffffffffU)) {
            return entry.arena.load(std::memory_order_acquire);
        }
    }
    return nullptr;
}

void arena_free(void* block) noexcept {
    if (block == nullptr) {
        return;
    }
    Arena* const arena = arena_of(block);
    SPILLWAY_ASSERT(arena != nullptr, "no arena owns this address");
    arena->free(block);
}

}  // namespace spillway
