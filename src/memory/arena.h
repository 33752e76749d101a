// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Memory under a byte budget, on machines where device and host memory are the same: one range of
// addresses whose resident pages never exceed a limit, whatever the fragmentation. Pages of freed
// blocks are kept and used again, so that a training step takes few page faults; only when a block
// fits nowhere among them are some of them given back to the system, to make room for new ones.
// Long blocks (256 KiB and more) lie apart, on huge pages as far as they are placed on whole ones.
#pragma once

#include "base/mutex.h"
#include "base/result.h"
#include "memory/arena_registry.h"
#include "memory/extent_map.h"
#include "memory/huge_pages.h"
#include "memory/slab_table.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace spillway {

struct ArenaOptions {
    std::int64_t limit_bytes = 0;    ///< 0: none, the arena only counts; else rounded down to pages
    std::int64_t virtual_bytes = 0;  ///< addresses, not memory; 0: many times the limit
};

/// Blocks are counted in whole pages: a large block as its rounded size, small ones as the pages
/// that they are carved from.
struct ArenaUsage {
    std::int64_t used_bytes = 0;           ///< in live blocks
    std::int64_t peak_bytes = 0;           ///< the most ever in use, or since `reset_peak`
    std::int64_t resident_bytes = 0;       ///< used, and free but kept: at most this is resident
    std::int64_t resident_peak_bytes = 0;  ///< the most of it since the arena was opened
    std::int64_t allocations = 0;          ///< live blocks
    std::int64_t discarded_bytes = 0;      ///< given back to the system so far, to stay in bounds
    std::int64_t huge_bytes = 0;           ///< of the resident ones, on huge pages if there are any

    bool operator==(ArenaUsage const&) const = default;
};

/// Page-granular allocator over a range of addresses, with an exact bound on resident pages.
///
/// Bound   used <= resident <= limit at every moment. Without a limit, resident <= the most that
///         was ever in use: fragmentation costs nothing. (Where the system refuses to split a
///         mapping, a huge page may stay whole, which is logged)
/// Thread  every function may be called from any thread; a block may be freed from any thread
/// Order   the memory stays mapped while a block lives, also after the last handle is gone. A
///         forked child goes on with a copy of its own
class Arena {
  public:
    /// Fails   Errc::bad_argument (a negative size), Errc::out_of_memory (no addresses left),
    ///         Errc::unsupported (65,536 arenas are open, or have blocks that live)
    [[nodiscard]] static Result<std::shared_ptr<Arena>> open(ArenaOptions options);

    Arena(Arena const&) = delete;
    Arena& operator=(Arena const&) = delete;

    /// A block of `rounded(size_bytes)` bytes, or nullptr when that would exceed the limit. Never
    /// waits. The bytes are whatever they are. It succeeds whenever
    /// used + rounded(size_bytes) <= limit, and for small blocks also where an open page has room.
    /// (Where the system grants fewer addresses than were wanted, they too may run out.)
    ///
    /// Units   size_bytes > 0; at most 2048 is small: 64-byte aligned; else page aligned
    [[nodiscard]] void* try_allocate(std::int64_t size_bytes) noexcept;

    /// Frees a live block of this arena (checked); nullptr is allowed.
    void free(void* block) noexcept;

    /// What a block of `size_bytes` takes: multiples of 64 up to 2048, of 4096 above.
    [[nodiscard]] std::int64_t rounded(std::int64_t size_bytes) const;

    /// The rounded size of a live block, named by its first byte (checked).
    [[nodiscard]] std::int64_t size_of(void const* block) const;

    /// Whether the address lies in this arena's range.
    [[nodiscard]] bool owns(void const* address) const noexcept;

    [[nodiscard]] ArenaUsage usage() const;
    /// The `used_bytes` of `usage`; no lock.
    [[nodiscard]] std::int64_t used_bytes() const noexcept;
    [[nodiscard]] std::int64_t limit_bytes() const;

    /// The most in use since the last `take_peak` (or since `open`); starts again from what is in
    /// use now. Independent of `usage().peak_bytes`.
    [[nodiscard]] std::int64_t take_peak();

    /// Starts `usage().peak_bytes` again from what is in use now.
    void reset_peak();

    /// Sets another limit (0: none). Kept free pages above it are given back at once; live blocks
    /// above it stay, and nothing new is granted until enough of them are freed.
    void set_limit(std::int64_t limit_bytes);
    /// The same, unless more than that is in use. Returns whether it was set.
    [[nodiscard]] bool try_set_limit(std::int64_t limit_bytes);

    /// Gives all free pages back to the system.
    void trim();

  private:
    friend class ArenasAtFork;
    struct Range {
        std::byte* mapped = nullptr;
        std::size_t mapped_bytes = 0;
        std::byte* first = nullptr;
        std::int64_t pages = 0;
        std::int64_t slab_pages = 0;
        std::int64_t first_long_page = 0;
    };
    [[nodiscard]] static Result<Range> map_range(ArenaOptions const& options);
    Arena(Range const& range, std::int64_t limit_bytes);
    ~Arena();
    static void release_handle(Arena* arena) noexcept;
    void give_unused_addresses_back() SPILLWAY_REQUIRES(guard_, arena_registry_mutex);
    void unpoison(std::int64_t first, std::int64_t end) const;

    [[nodiscard]] std::int64_t bound_pages() const SPILLWAY_REQUIRES(guard_);
    [[nodiscard]] std::int64_t paged_block(std::int64_t pages) SPILLWAY_REQUIRES(guard_);
    [[nodiscard]] std::int64_t take_pages(ExtentMap& zone, std::int64_t pages)
        SPILLWAY_REQUIRES(guard_);
    [[nodiscard]] ExtentMap& zone_of(std::int64_t page) SPILLWAY_REQUIRES(guard_);
    void give_pages(ExtentMap& zone, std::int64_t first) SPILLWAY_REQUIRES(guard_);
    void cool_down_to(std::int64_t resident_pages) SPILLWAY_REQUIRES(guard_);
    [[nodiscard]] std::byte* small_block(std::int64_t size_bytes) SPILLWAY_REQUIRES(guard_);
    void free_small(SlabTable::Place place) SPILLWAY_REQUIRES(guard_);
    [[nodiscard]] std::byte* address(std::int64_t page) const;
    [[nodiscard]] std::int64_t page_of(void const* address) const;

    Range const range_;
    std::int64_t entry_ = -1;  ///< in the process-wide registry

    mutable Mutex guard_;
    std::int64_t limit_pages_ SPILLWAY_GUARDED_BY(guard_);
    /// Addresses of the pages of small blocks: they cut no large hole.
    ExtentMap slab_zone_ SPILLWAY_GUARDED_BY(guard_);
    ExtentMap block_zone_ SPILLWAY_GUARDED_BY(guard_);  ///< addresses of blocks of whole pages
    ExtentMap long_zone_ SPILLWAY_GUARDED_BY(guard_);   ///< addresses of long blocks
    SlabTable slabs_ SPILLWAY_GUARDED_BY(guard_);
    HugePages huge_pages_ SPILLWAY_GUARDED_BY(guard_);         ///< of the long zone
    std::atomic<std::int64_t> used_pages_ = 0;                 ///< changed with `guard_` held
    std::int64_t warm_pages_ SPILLWAY_GUARDED_BY(guard_) = 0;  ///< free, resident
    std::int64_t most_used_pages_ SPILLWAY_GUARDED_BY(guard_) = 0;
    std::int64_t peak_pages_ SPILLWAY_GUARDED_BY(guard_) = 0;
    std::int64_t taken_peak_pages_ SPILLWAY_GUARDED_BY(guard_) = 0;
    std::int64_t resident_peak_pages_ SPILLWAY_GUARDED_BY(guard_) = 0;
    std::int64_t allocations_ SPILLWAY_GUARDED_BY(guard_) = 0;
    std::int64_t discarded_pages_ SPILLWAY_GUARDED_BY(guard_) = 0;
    std::int64_t kept_pages_ SPILLWAY_GUARDED_BY(guard_);  ///< that are still mapped, of `range_`
    /// The last handle is gone: the last block takes the arena along.
    bool released_ SPILLWAY_GUARDED_BY(guard_) = false;
};

/// The arena whose range holds `address`, or nullptr. The answer is good for as long as the caller
/// knows the arena to be alive (it has a handle or a live block). A few loads, no lock.
[[nodiscard]] Arena* arena_of(void const* address) noexcept;

/// Frees a live block of whatever arena it belongs to (checked); nullptr is allowed.
void arena_free(void* block) noexcept;

}  // namespace spillway
