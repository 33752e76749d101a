// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/arena.h"

#include "base/units.h"
#include "memory/arena_registry.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string>
#include <utility>

// A free block is poisoned, so that ASan finds whoever still uses it. Never used before is not.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPILLWAY_UNDER_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SPILLWAY_UNDER_ASAN 1
#endif
#if defined(SPILLWAY_UNDER_ASAN)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(first, size) ((void)(first), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(first, size) ((void)(first), (void)(size))
#endif

namespace spillway {

namespace {

constexpr std::int64_t kLeastVirtualBytes = std::int64_t{8} << 20;
constexpr std::int64_t kCommonVirtualBytes = std::int64_t{64} << 30;
constexpr std::int64_t kMostVirtualBytes = std::int64_t{1} << 40;
constexpr std::int64_t kVirtualPerLimit = 32;
/// From here on a block is long. Apart from shorter ones they leave holes that others of them fit.
constexpr std::int64_t kLongPages = kHugePagePages / 8;

// Addresses are free; fragmentation of addresses is avoided by having many times the limit.
std::int64_t virtual_bytes_for(ArenaOptions const& options) {
    std::int64_t wanted = options.virtual_bytes;
    if (wanted == 0 && options.limit_bytes == 0) {
        wanted = kMostVirtualBytes;
    } else if (wanted == 0) {
        std::int64_t const limit = std::min(options.limit_bytes, kMostVirtualBytes);
        wanted = std::max(limit * kVirtualPerLimit, kCommonVirtualBytes);
    }
    return round_up(
        std::clamp(wanted, kLeastVirtualBytes, 32 * kMostVirtualBytes), kArenaUnitBytes
    );
}

// Gives pages back to the system; the next touch finds fresh ones.
void discard(std::byte* first, std::int64_t size_bytes) {
    int status = 0;
    do {
        status = ::madvise(first, static_cast<std::size_t>(size_bytes), MADV_DONTNEED);
    } while (status != 0 && errno == EAGAIN);
    SPILLWAY_ASSERT(status == 0, "the system takes pages back");
}

std::int64_t pages_of(std::int64_t size_bytes) {
    return size_bytes / kArenaPageBytes + (size_bytes % kArenaPageBytes != 0 ? 1 : 0);
}

bool is_small(std::int64_t size_bytes) {
    return size_bytes < kSmallestPagedBytes;
}

/// Addresses that nobody had mapped when it was made.
struct Hole {
    std::byte* first = nullptr;  ///< a multiple of the unit
    std::int64_t size_bytes = 0;
};

/// The last one that a shortened arena left: the next arena's.
Hole hole_given_back SPILLWAY_GUARDED_BY(arena_registry_mutex);

Hole take_hole_given_back() {
    MutexLock const lock(arena_registry_mutex);
    return std::exchange(hole_given_back, Hole{});
}

}  // namespace

Result<std::shared_ptr<Arena>> Arena::open(ArenaOptions options) {
    if (options.limit_bytes < 0 || options.virtual_bytes < 0) {
        return Error{Errc::bad_argument, "a size of an arena is negative", ""};
    }
    if (options.limit_bytes > 0 && options.limit_bytes < kArenaPageBytes) {
        std::string const limit = format_size(options.limit_bytes);
        return Error{
            Errc::bad_argument, "a limit of " + limit + " is less than a page (4 KiB)", ""};
    }
    Result<Range> const range = map_range(options);
    if (!range.ok()) {
        return range.error();
    }
    std::shared_ptr<Arena> arena(new Arena(*range, options.limit_bytes), &Arena::release_handle);
    Result<std::int64_t> const entry =
        register_arena(arena.get(), range->first, range->pages * kArenaPageBytes);
    if (!entry.ok()) {
        return entry.error();
    }
    arena->entry_ = *entry;
    return arena;
}

// As many addresses as wanted, or half as many, until the system grants them. The system itself
// would leave a hole behind each arena that is shortened, too small by a little for the next one.
Result<Arena::Range> Arena::map_range(ArenaOptions const& options) {
    std::int64_t const least_bytes = std::max(options.limit_bytes, kLeastVirtualBytes);
    std::int64_t size_bytes = virtual_bytes_for(options);
    Hole const hole = take_hole_given_back();
    std::int64_t const fits_bytes = (hole.size_bytes / kArenaUnitBytes - 1) * kArenaUnitBytes;
    if (fits_bytes >= std::max(least_bytes, size_bytes / 2)) {
        size_bytes = std::min(size_bytes, fits_bytes);
    }
    Range range;
    while (true) {
        // One unit more, to start at a multiple of it.
        range.mapped_bytes = static_cast<std::size_t>(size_bytes + kArenaUnitBytes);
        void* const mapped = ::mmap(
            hole.first,  // a wish: if others are there by now, the system takes another place
            range.mapped_bytes,
            PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
            -1,
            0
        );
        if (mapped != MAP_FAILED) {
            range.mapped = static_cast<std::byte*>(mapped);
            break;
        }
        if (size_bytes / 2 < least_bytes) {
            std::string const size = format_size(size_bytes);
            return Error{Errc::out_of_memory, "the system refuses " + size + " of addresses", ""};
        }
        size_bytes = round_up(size_bytes / 2, kArenaUnitBytes);
    }
    // A huge page would make pages resident that nobody counts; where all of it counts, the long
    // zone asks for one. Old kernels do not know the call.
    static_cast<void>(::madvise(range.mapped, range.mapped_bytes, MADV_NOHUGEPAGE));
    auto const mapped_at = reinterpret_cast<std::uintptr_t>(range.mapped);
    range.first = range.mapped + (0 - mapped_at) % kArenaUnitBytes;
    range.pages = size_bytes / kArenaPageBytes;
    // Room for a limit full of small blocks, where there are addresses enough for that.
    std::int64_t const limit_pages = options.limit_bytes / kArenaPageBytes;
    range.slab_pages = std::min(range.pages / 4, std::max(range.pages / 16, limit_pages));
    range.first_long_page = round_up((range.slab_pages + range.pages) / 2, kHugePagePages);
    return range;
}

Arena::Arena(Range const& range, std::int64_t limit_bytes)
    : range_(range),
      limit_pages_(limit_bytes / kArenaPageBytes),
      slab_zone_(0, range.slab_pages),
      block_zone_(range.slab_pages, range.first_long_page - range.slab_pages),
      long_zone_(range.first_long_page, range.pages - range.first_long_page, kHugePagePages),
      huge_pages_(range.first),
      kept_pages_(range.pages) {}

Arena::~Arena() {
    if (entry_ >= 0) {
        forget_arena(entry_);
    }
    for (auto const& [first, end] : {
             std::pair{std::int64_t{0}, slab_zone_.highest_page()},
             std::pair{range_.slab_pages, block_zone_.highest_page()},
             std::pair{range_.first_long_page, long_zone_.highest_page()},
         }) {
        // Not the whole range: its shadow alone could be more than the machine has.
        unpoison(first, std::min(end, kept_pages_));
    }
    ::munmap(
        range_.mapped,
        kept_pages_ == range_.pages ? range_.mapped_bytes
                                    : static_cast<std::size_t>(address(kept_pages_) - range_.mapped)
    );
}

void Arena::unpoison(std::int64_t first, std::int64_t end) const {
    if (first < end) {
        auto const size_bytes = static_cast<std::size_t>((end - first) * kArenaPageBytes);
        ASAN_UNPOISON_MEMORY_REGION(address(first), size_bytes);
    }
}

/// Of an arena without a handle, whose blocks may live long (a loss that is kept of each session):
/// what lies behind the last of them. Called with both locks held.
void Arena::give_unused_addresses_back() {
    std::int64_t used = slab_zone_.end_of_used();
    for (auto const& [zone, first] :
         {std::pair{&block_zone_, range_.slab_pages},
          std::pair{&long_zone_, range_.first_long_page}}) {
        used = zone->end_of_used() > first ? zone->end_of_used() : used;
    }
    std::int64_t const kept = round_up(used, kArenaUnitBytes / kArenaPageBytes);
    if (kept >= range_.pages) {
        return;
    }
    unpoison(std::max<std::int64_t>(kept, 0), slab_zone_.highest_page());
    unpoison(std::max(kept, range_.slab_pages), block_zone_.highest_page());
    unpoison(std::max(kept, range_.first_long_page), long_zone_.highest_page());
    shorten_arena(entry_, kept * kArenaPageBytes);
    std::byte* const rest = address(kept);
    std::int64_t const rest_bytes =
        range_.mapped + static_cast<std::int64_t>(range_.mapped_bytes) - rest;
    ::munmap(rest, static_cast<std::size_t>(rest_bytes));
    kept_pages_ = kept;
    hole_given_back = {rest, rest_bytes};
}

// The last handle is gone; the arena stays as long as a block lives.
void Arena::release_handle(Arena* arena) noexcept {
    bool last = false;
    {
        MutexLock const registry(arena_registry_mutex);
        MutexLock const lock(arena->guard_);
        arena->released_ = true;
        last = arena->allocations_ == 0;
        if (!last) {
            arena->cool_down_to(arena->used_pages_);
            arena->give_unused_addresses_back();
        }
    }
    if (last) {
        delete arena;
    }
}

std::byte* Arena::address(std::int64_t page) const {
    return range_.first + page * kArenaPageBytes;
}

std::int64_t Arena::page_of(void const* address) const {
    return (static_cast<std::byte const*>(address) - range_.first) / kArenaPageBytes;
}

bool Arena::owns(void const* address) const noexcept {
    auto const first = reinterpret_cast<std::uintptr_t>(range_.first);
    auto const offset = reinterpret_cast<std::uintptr_t>(address) - first;
    return offset < static_cast<std::uintptr_t>(range_.pages * kArenaPageBytes);
}

std::int64_t Arena::rounded(std::int64_t size_bytes) const {
    if (is_small(size_bytes)) {
        return round_up(size_bytes, kSmallUnitBytes);
    }
    std::int64_t const pages = pages_of(size_bytes);
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / kArenaPageBytes;
    return std::min(pages, kMost) * kArenaPageBytes;
}

void* Arena::try_allocate(std::int64_t size_bytes) noexcept {
    SPILLWAY_ASSERT(size_bytes > 0, "a block has at least one byte");
    std::int64_t const rounded_bytes = rounded(size_bytes);
    MutexLock const lock(guard_);
    std::byte* block = nullptr;
    if (is_small(size_bytes)) {
        block = small_block(rounded_bytes);
    } else {
        std::int64_t const page = paged_block(pages_of(size_bytes));
        block = page >= 0 ? address(page) : nullptr;
    }
    if (block != nullptr) {
        ++allocations_;
        ASAN_UNPOISON_MEMORY_REGION(block, static_cast<std::size_t>(rounded_bytes));
    }
    return block;
}

std::byte* Arena::small_block(std::int64_t size_bytes) {
    SlabTable::Place place = slabs_.take(size_bytes);
    if (place.page < 0) {
        std::int64_t const page = take_pages(slab_zone_, 1);
        if (page < 0) {
            return nullptr;
        }
        ASAN_POISON_MEMORY_REGION(address(page), static_cast<std::size_t>(kArenaPageBytes));
        slabs_.add(page, size_bytes);
        place = slabs_.take(size_bytes);
    }
    return address(place.page) + place.offset_bytes;
}

// The zone where it belongs, else the other one: addresses can be scarce.
std::int64_t Arena::paged_block(std::int64_t pages) {
    bool const is_long = pages >= kLongPages;
    std::int64_t const page = take_pages(is_long ? long_zone_ : block_zone_, pages);
    return page >= 0 ? page : take_pages(is_long ? block_zone_ : long_zone_, pages);
}

// The first of `pages` adjacent pages, or -1 when the limit or the addresses do not allow them.
std::int64_t Arena::take_pages(ExtentMap& zone, std::int64_t pages) {
    if (pages > (limit_pages_ > 0 ? limit_pages_ : range_.pages) - used_pages_) {
        return -1;
    }
    PagePlace const place = zone.take(pages);
    if (place.first < 0) {
        return -1;
    }
    if (&zone == &long_zone_) {
        for (PageRun const& run : place.cold) {
            huge_pages_.use(run);
        }
    }
    used_pages_ += pages;
    warm_pages_ -= pages - place.cold_pages();
    most_used_pages_ = std::max(most_used_pages_, used_pages_.load());
    peak_pages_ = std::max(peak_pages_, used_pages_.load());
    taken_peak_pages_ = std::max(taken_peak_pages_, used_pages_.load());
    // Nobody has touched the new pages yet: others go first.
    cool_down_to(bound_pages());
    resident_peak_pages_ = std::max(resident_peak_pages_, used_pages_ + warm_pages_);
    return place.first;
}

std::int64_t Arena::bound_pages() const {
    return limit_pages_ > 0 ? limit_pages_ : most_used_pages_;
}

// A page that is cold in the books must not be taken before it really is.
void Arena::cool_down_to(std::int64_t resident_pages) {
    for (ExtentMap* const zone : {&block_zone_, &long_zone_, &slab_zone_}) {
        std::int64_t const excess = used_pages_ + warm_pages_ - resident_pages;
        if (excess <= 0) {
            return;
        }
        for (PageRun const& run : zone->cool(excess)) {
            huge_pages_.give_up(run);
            discard(address(run.first), run.pages * kArenaPageBytes);
            warm_pages_ -= run.pages;
            discarded_pages_ += run.pages;
        }
    }
}

ExtentMap& Arena::zone_of(std::int64_t page) {
    return page < range_.first_long_page ? block_zone_ : long_zone_;
}

void Arena::give_pages(ExtentMap& zone, std::int64_t first) {
    std::int64_t const pages = zone.give_back(first);
    ASAN_POISON_MEMORY_REGION(address(first), static_cast<std::size_t>(pages * kArenaPageBytes));
    used_pages_ -= pages;
    warm_pages_ += pages;
    cool_down_to(bound_pages());  // only after the limit was lowered below what was in use
}

void Arena::free(void* block) noexcept {
    if (block == nullptr) {
        return;
    }
    SPILLWAY_ASSERT(owns(block), "the block is of this arena");
    bool last = false;
    {
        MutexLock const lock(guard_);
        std::int64_t const page = page_of(block);
        std::int64_t const offset = static_cast<std::byte*>(block) - address(page);
        if (page < range_.slab_pages) {
            free_small({page, offset});
        } else {
            SPILLWAY_ASSERT(offset == 0, "no live block starts here");
            give_pages(zone_of(page), page);
        }
        --allocations_;
        last = released_ && allocations_ == 0;
    }
    if (last) {
        delete this;
    }
}

void Arena::free_small(SlabTable::Place place) {
    std::byte* const block = address(place.page) + place.offset_bytes;
    ASAN_POISON_MEMORY_REGION(block, static_cast<std::size_t>(slabs_.size_of(place)));
    if (slabs_.give_back(place)) {
        give_pages(slab_zone_, place.page);
    }
}

std::int64_t Arena::size_of(void const* block) const {
    SPILLWAY_ASSERT(owns(block), "the block is of this arena");
    MutexLock const lock(guard_);
    std::int64_t const page = page_of(block);
    std::int64_t const offset = static_cast<std::byte const*>(block) - address(page);
    if (page < range_.slab_pages) {
        return slabs_.size_of({page, offset});
    }
    SPILLWAY_ASSERT(offset == 0, "no live block starts here");
    ExtentMap const& zone = page < range_.first_long_page ? block_zone_ : long_zone_;
    return zone.size_of(page) * kArenaPageBytes;
}

ArenaUsage Arena::usage() const {
    MutexLock const lock(guard_);
    ArenaUsage usage;
    usage.used_bytes = used_pages_ * kArenaPageBytes;
    usage.peak_bytes = peak_pages_ * kArenaPageBytes;
    usage.resident_bytes = (used_pages_ + warm_pages_) * kArenaPageBytes;
    usage.resident_peak_bytes = resident_peak_pages_ * kArenaPageBytes;
    usage.allocations = allocations_;
    usage.discarded_bytes = discarded_pages_ * kArenaPageBytes;
    usage.huge_bytes = huge_pages_.granules() * kHugePageBytes;
    return usage;
}

std::int64_t Arena::used_bytes() const noexcept {
    return used_pages_.load(std::memory_order_relaxed) * kArenaPageBytes;
}

std::int64_t Arena::limit_bytes() const {
    MutexLock const lock(guard_);
    return limit_pages_ * kArenaPageBytes;
}

std::int64_t Arena::take_peak() {
    MutexLock const lock(guard_);
    return std::exchange(taken_peak_pages_, used_pages_.load()) * kArenaPageBytes;
}

void Arena::reset_peak() {
    MutexLock const lock(guard_);
    peak_pages_ = used_pages_;
}

void Arena::set_limit(std::int64_t limit_bytes) {
    SPILLWAY_ASSERT(
        limit_bytes == 0 || limit_bytes >= kArenaPageBytes, "a limit is a page or more"
    );
    MutexLock const lock(guard_);
    limit_pages_ = limit_bytes / kArenaPageBytes;
    cool_down_to(bound_pages());
}

bool Arena::try_set_limit(std::int64_t limit_bytes) {
    SPILLWAY_ASSERT(limit_bytes >= kArenaPageBytes, "a limit is a page or more");
    MutexLock const lock(guard_);
    std::int64_t const pages = limit_bytes / kArenaPageBytes;
    if (used_pages_ > pages) {
        return false;
    }
    limit_pages_ = pages;
    cool_down_to(bound_pages());
    return true;
}

void Arena::trim() {
    MutexLock const lock(guard_);
    cool_down_to(0);
}

}  // namespace spillway
