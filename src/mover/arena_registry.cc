// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/arena_registry.h"

#include "mover/arena.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <mutex>

namespace spillway {

namespace {

// Note [Finding an arena without a lock]
// A slot's range is one word, so it is never seen torn. Whoever asks about a live block asks about
// a mapped range; no other range covers it, and a slot that covered it before was emptied before
// the block existed. So a slot whose range holds the address is the right one, and its arena cannot
// go away while the block lives.
struct ArenaSlot {
    std::atomic<std::uint64_t> range{0};  ///< first unit << 32 | units; 0: empty
    std::atomic<Arena*> arena{nullptr};
};

constexpr std::size_t kArenaSlots = 256;

// Never destroyed: blocks are freed also while the program's own statics are.
constinit std::array<ArenaSlot, kArenaSlots> slots{};
constinit std::atomic<std::size_t> slots_in_use{0};  ///< all at and above it are empty
constinit std::mutex slots_guard;                    ///< of registering and forgetting

}  // namespace

// A fork takes no snapshot of an arena in mid-change: it holds every lock meanwhile.
class ArenasAtFork {
  public:
    static void prepare() {
        slots_guard.lock();
        for_each_arena([](Arena& arena) { arena.guard_.lock(); });
    }
    static void resume() {
        for_each_arena([](Arena& arena) { arena.guard_.unlock(); });
        slots_guard.unlock();
    }

  private:
    template <typename Action>
    static void for_each_arena(Action const& action) {
        for (ArenaSlot& slot : slots) {
            if (slot.range.load(std::memory_order_relaxed) != 0) {
                action(*slot.arena.load(std::memory_order_relaxed));
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
    std::lock_guard const lock(slots_guard);
    for (std::size_t i = 0; i < kArenaSlots; ++i) {
        if (slots[i].range.load(std::memory_order_relaxed) != 0) {
            continue;
        }
        slots[i].arena.store(arena, std::memory_order_relaxed);
        slots[i].range.store(first_unit << 32 | units, std::memory_order_release);
        if (i >= slots_in_use.load(std::memory_order_relaxed)) {
            slots_in_use.store(i + 1, std::memory_order_release);
        }
        return static_cast<std::int64_t>(i);
    }
    return Error{Errc::unsupported, "too many arenas are open at once", "device"};
}

void forget_arena(std::int64_t slot) noexcept {
    std::lock_guard const lock(slots_guard);
    ArenaSlot& emptied = slots[static_cast<std::size_t>(slot)];
    emptied.range.store(0, std::memory_order_release);
    emptied.arena.store(nullptr, std::memory_order_relaxed);
}

Arena* arena_of(void const* address) noexcept {
    std::uint64_t const unit = reinterpret_cast<std::uintptr_t>(address) / kArenaUnitBytes;
    std::size_t const in_use = slots_in_use.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < in_use; ++i) {
        std::uint64_t const range = slots[i].range.load(std::memory_order_acquire);
        // Below the first unit the difference wraps around and is large.
        if (unit - (range >> 32) < (range & 0xffffffffU)) {
            return slots[i].arena.load(std::memory_order_acquire);
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
