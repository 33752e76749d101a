// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/arena.h"

#include "base/units.h"
#include "memory/cpu_device.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kPageBytes = kArenaPageBytes;

std::shared_ptr<Arena> arena_of_pages(std::int64_t pages) {
    Result<std::shared_ptr<Arena>> arena = Arena::open({.limit_bytes = pages * kPageBytes});
    EXPECT_TRUE(arena.ok());
    return *arena;
}

void* block_of_pages(Arena& arena, std::int64_t pages) {
    void* const block = arena.try_allocate(pages * kPageBytes);
    EXPECT_NE(block, nullptr);
    return block;
}

TEST(ArenaTest, sizes_are_rounded_to_classes_and_pages) {
    auto const arena = arena_of_pages(4);
    EXPECT_EQ(arena->rounded(1), 64);
    EXPECT_EQ(arena->rounded(64), 64);
    EXPECT_EQ(arena->rounded(65), 128);
    EXPECT_EQ(arena->rounded(2047), 2048);
    EXPECT_EQ(arena->rounded(2048), 2048);
    EXPECT_EQ(arena->rounded(2049), 4096);
    EXPECT_EQ(arena->rounded(4096), 4096);
    EXPECT_EQ(arena->rounded(4097), 8192);
    EXPECT_GT(arena->rounded(std::numeric_limits<std::int64_t>::max()), 0);
}

TEST(ArenaTest, a_limit_is_kept_to_the_page) {
    auto const arena = arena_of_pages(4);
    EXPECT_EQ(arena->try_allocate(4 * kPageBytes + 1), nullptr);
    void* const most = arena->try_allocate(4 * kPageBytes);
    EXPECT_NE(most, nullptr);
    EXPECT_EQ(arena->try_allocate(1), nullptr);
    EXPECT_EQ(arena->usage().used_bytes, 4 * kPageBytes);
    arena->free(most);
    EXPECT_EQ(arena->usage().used_bytes, 0);
    EXPECT_EQ(arena->usage().allocations, 0);
}

TEST(ArenaTest, a_limit_between_pages_is_rounded_down) {
    auto const arena = *Arena::open({.limit_bytes = 3 * kPageBytes - 1});
    EXPECT_EQ(arena->limit_bytes(), 2 * kPageBytes);
}

TEST(ArenaTest, huge_sizes_are_refused) {
    auto const arena = arena_of_pages(4);
    auto const unlimited = *Arena::open({});
    for (std::int64_t const size_bytes :
         {std::numeric_limits<std::int64_t>::max(),
          std::numeric_limits<std::int64_t>::max() - 4095,
          std::int64_t{1} << 62,
          std::int64_t{1} << 46}) {
        EXPECT_EQ(arena->try_allocate(size_bytes), nullptr);
        EXPECT_EQ(unlimited->try_allocate(size_bytes), nullptr);
    }
}

TEST(ArenaTest, bad_options_are_refused) {
    EXPECT_EQ(Arena::open({.limit_bytes = -1}).error().code, Errc::bad_argument);
    EXPECT_EQ(Arena::open({.virtual_bytes = -1}).error().code, Errc::bad_argument);
    EXPECT_EQ(Arena::open({.limit_bytes = 4095}).error().code, Errc::bad_argument);
}

TEST(ArenaTest, freed_pages_are_used_again_without_a_fault) {
    auto const arena = arena_of_pages(8);
    void* const first = block_of_pages(*arena, 5);
    std::memset(first, 1, static_cast<std::size_t>(5 * kPageBytes));
    arena->free(first);
    void* const again = block_of_pages(*arena, 5);
    EXPECT_EQ(again, first);
    EXPECT_EQ(arena->usage().discarded_bytes, 0);
    EXPECT_EQ(arena->usage().resident_bytes, 5 * kPageBytes);
    EXPECT_EQ(static_cast<char*>(again)[4 * kPageBytes], 1);  // the very page
    arena->free(again);
}

TEST(ArenaTest, fragmentation_never_refuses_and_never_exceeds_the_limit) {
    auto const arena = arena_of_pages(16);
    std::vector<void*> blocks;
    for (int i = 0; i < 16; ++i) {
        blocks.push_back(block_of_pages(*arena, 1));
    }
    for (std::size_t i = 0; i < 16; i += 2) {
        arena->free(blocks[i]);
    }
    void* const large = block_of_pages(*arena, 8);
    EXPECT_EQ(arena->usage().used_bytes, 16 * kPageBytes);
    EXPECT_EQ(arena->usage().resident_bytes, 16 * kPageBytes);
    EXPECT_EQ(arena->usage().resident_peak_bytes, 16 * kPageBytes);
    EXPECT_EQ(arena->usage().discarded_bytes, 8 * kPageBytes);
    arena->free(large);
    for (std::size_t i = 1; i < 16; i += 2) {
        arena->free(blocks[i]);
    }
}

TEST(ArenaTest, without_a_limit_resident_stays_at_the_most_in_use) {
    auto const arena = *Arena::open({});
    void* const a = block_of_pages(*arena, 4);
    void* const b = block_of_pages(*arena, 4);
    arena->free(a);
    void* const c = block_of_pages(*arena, 6);  // 10 in use: the most so far
    EXPECT_EQ(arena->usage().peak_bytes, 10 * kPageBytes);
    EXPECT_EQ(arena->usage().resident_bytes, 10 * kPageBytes);
    arena->free(b);
    arena->free(c);
    EXPECT_EQ(arena->usage().resident_bytes, 10 * kPageBytes);
}

TEST(ArenaTest, small_blocks_share_a_page_and_are_counted_as_pages) {
    auto const arena = arena_of_pages(2);
    std::vector<void*> blocks;
    for (int i = 0; i < 64; ++i) {
        blocks.push_back(arena->try_allocate(33));
        ASSERT_NE(blocks.back(), nullptr);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % 64, 0U);
        EXPECT_EQ(arena->size_of(blocks.back()), 64);
    }
    EXPECT_EQ(arena->usage().used_bytes, kPageBytes);
    EXPECT_EQ(arena->usage().allocations, 64);
    for (void* const block : blocks) {
        arena->free(block);
    }
    EXPECT_EQ(arena->usage().used_bytes, 0);
}

TEST(ArenaTest, a_small_block_fits_into_an_open_page_at_the_limit) {
    auto const arena = arena_of_pages(2);
    void* const small = arena->try_allocate(64);
    void* const page = block_of_pages(*arena, 1);
    void* const beside = arena->try_allocate(64);
    EXPECT_NE(beside, nullptr);
    EXPECT_EQ(arena->try_allocate(128), nullptr);
    arena->free(small);
    arena->free(page);
    arena->free(beside);
}

TEST(ArenaTest, take_peak_starts_again_from_what_is_in_use) {
    auto const arena = arena_of_pages(8);
    void* const kept = block_of_pages(*arena, 1);
    void* const passing = block_of_pages(*arena, 4);
    arena->free(passing);
    EXPECT_EQ(arena->take_peak(), 5 * kPageBytes);
    EXPECT_EQ(arena->take_peak(), 1 * kPageBytes);
    EXPECT_EQ(arena->usage().peak_bytes, 5 * kPageBytes);
    arena->reset_peak();
    EXPECT_EQ(arena->usage().peak_bytes, 1 * kPageBytes);
    arena->free(kept);
    EXPECT_EQ(arena->take_peak(), 1 * kPageBytes);
    EXPECT_EQ(arena->take_peak(), 0);
}

TEST(ArenaTest, a_lower_limit_gives_free_pages_back_and_refuses_until_it_is_met) {
    auto const arena = arena_of_pages(8);
    void* const kept = block_of_pages(*arena, 3);
    void* const freed = block_of_pages(*arena, 5);
    arena->free(freed);
    EXPECT_EQ(arena->usage().resident_bytes, 8 * kPageBytes);
    arena->set_limit(2 * kPageBytes);
    EXPECT_EQ(arena->usage().resident_bytes, 3 * kPageBytes);
    EXPECT_EQ(arena->try_allocate(1), nullptr);
    arena->free(kept);
    EXPECT_EQ(arena->usage().resident_bytes, 2 * kPageBytes);
    void* const next = block_of_pages(*arena, 2);
    arena->set_limit(0);
    void* const more = block_of_pages(*arena, 100);
    arena->free(next);
    arena->free(more);
}

TEST(ArenaTest, trim_gives_all_free_pages_back) {
    auto const arena = arena_of_pages(8);
    void* const kept = block_of_pages(*arena, 1);
    arena->free(block_of_pages(*arena, 6));
    arena->free(arena->try_allocate(64));
    arena->trim();
    EXPECT_EQ(arena->usage().resident_bytes, 1 * kPageBytes);
    arena->free(kept);
}

bool system_has_huge_pages() {
    std::ifstream enabled("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string const modes(std::istreambuf_iterator<char>(enabled), {});
    return modes.find("[always]") != std::string::npos ||
           modes.find("[madvise]") != std::string::npos;
}

/// Resident pages among the `pages` from `first` on.
std::int64_t resident_pages(void* first, std::int64_t pages) {
    std::vector<unsigned char> states(static_cast<std::size_t>(pages));
    EXPECT_EQ(::mincore(first, static_cast<std::size_t>(pages * kPageBytes), states.data()), 0);
    return std::count_if(states.begin(), states.end(), [](unsigned char s) {
        return (s & 1) != 0;
    });
}

TEST(ArenaTest, a_long_block_lies_on_huge_pages_as_far_as_it_fills_them) {
    constexpr std::int64_t kExtra = 3;
    auto const arena = arena_of_pages(8 * kHugePagePages);
    void* const block = block_of_pages(*arena, 2 * kHugePagePages + kExtra);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % kHugePageBytes, 0U);
    EXPECT_EQ(arena->usage().huge_bytes, 2 * kHugePageBytes);
    if (!system_has_huge_pages()) {
        arena->free(block);
        GTEST_SKIP() << "transparent huge pages are off on this machine";
    }
    auto* const first = static_cast<std::byte*>(block);
    first[0] = std::byte{1};
    first[2 * kHugePageBytes] = std::byte{1};
    // One touch fills it, unless the system has no free memory in one piece of that size.
    std::int64_t const touched = resident_pages(first, kHugePagePages);
    EXPECT_TRUE(touched == kHugePagePages || touched == 1) << touched;
    EXPECT_EQ(resident_pages(first + kHugePageBytes, kHugePagePages), 0);
    EXPECT_EQ(resident_pages(first + 2 * kHugePageBytes, 2 * kExtra), 1) << "the rest is small";
    arena->free(block);
}

TEST(ArenaTest, a_granule_that_was_given_back_in_part_is_never_filled_as_a_whole) {
    auto const arena = arena_of_pages(2 * kHugePagePages);
    void* const long_block = block_of_pages(*arena, 2 * kHugePagePages);
    std::memset(long_block, 1, 2 * kHugePageBytes);
    arena->free(long_block);
    void* const short_block = block_of_pages(*arena, 1);  // takes its page from the long zone
    EXPECT_EQ(arena->usage().discarded_bytes, kHugePageBytes) << "a whole granule";
    EXPECT_EQ(arena->usage().huge_bytes, kHugePageBytes);
    EXPECT_LE(resident_pages(long_block, 2 * kHugePagePages), kHugePagePages);
    void* const rest = block_of_pages(*arena, 2 * kHugePagePages - 1);
    EXPECT_EQ(arena->usage().resident_bytes, 2 * kHugePageBytes);
    std::memset(rest, 2, static_cast<std::size_t>((2 * kHugePagePages - 1) * kPageBytes));
    EXPECT_LE(resident_pages(long_block, 2 * kHugePagePages), 2 * kHugePagePages - 1);
    arena->free(rest);
    arena->free(short_block);
}

TEST(ArenaTest, a_discarded_page_comes_back_empty) {
    auto const arena = arena_of_pages(2);
    void* const block = block_of_pages(*arena, 2);
    std::memset(block, 1, static_cast<std::size_t>(2 * kPageBytes));
    arena->free(block);
    arena->trim();
    void* const again = block_of_pages(*arena, 2);
    EXPECT_EQ(again, block);
    EXPECT_EQ(static_cast<char*>(again)[kPageBytes], 0);
    arena->free(again);
}

TEST(ArenaTest, blocks_outlive_the_handle) {
    auto arena = arena_of_pages(8);
    void* const large = block_of_pages(*arena, 2);
    void* const small = arena->try_allocate(64);
    arena.reset();
    std::memset(large, 1, static_cast<std::size_t>(2 * kPageBytes));
    std::memset(small, 1, 64);
    ASSERT_NE(arena_of(large), nullptr);
    EXPECT_EQ(arena_of(large)->size_of(large), 2 * kPageBytes);
    arena_free(large);
    EXPECT_EQ(arena_of(small)->usage().allocations, 1);
    arena_free(small);
    EXPECT_EQ(arena_of(large), nullptr);
}

TEST(ArenaTest, an_address_is_found_in_its_own_arena_only) {
    auto const a = arena_of_pages(8);
    auto const b = arena_of_pages(8);
    void* const in_a = block_of_pages(*a, 1);
    void* const in_b = block_of_pages(*b, 1);
    int on_stack = 0;
    EXPECT_EQ(arena_of(in_a), a.get());
    EXPECT_EQ(arena_of(in_b), b.get());
    EXPECT_EQ(arena_of(&on_stack), nullptr);
    EXPECT_EQ(arena_of(nullptr), nullptr);
    EXPECT_TRUE(a->owns(in_a));
    EXPECT_FALSE(a->owns(in_b));
    EXPECT_FALSE(a->owns(&on_stack));
    arena_free(in_a);
    arena_free(in_b);
    arena_free(nullptr);
}

TEST(ArenaTest, a_block_kept_of_each_of_thousands_costs_a_page_and_few_addresses) {
    constexpr int kArenas = 3000;
#ifdef __SANITIZE_THREAD__
    constexpr std::int64_t kLimit = std::int64_t{1} << 30;  // TSan leaves a program few addresses
#else
    constexpr std::int64_t kLimit = std::int64_t{64} << 30;
#endif
    std::vector<void*> kept;
    for (int i = 0; i < kArenas; ++i) {
        Result<std::shared_ptr<Arena>> const arena = Arena::open({.limit_bytes = kLimit});
        ASSERT_TRUE(arena.ok()) << "arena " << i << ": " << arena.error().message();
        void* const large = (*arena)->try_allocate(64 * kPageBytes);
        void* const small = (*arena)->try_allocate(8);
        void* const longer = (*arena)->try_allocate(1024 * kPageBytes);
        std::memcpy(small, &i, sizeof(i));
        std::memset(longer, 1, 1);
        arena_free(large);
        arena_free(longer);
        kept.push_back(small);
    }
    int far_apart = 0;
    for (std::size_t i = 1; i < kept.size(); ++i) {
        auto const before = static_cast<std::byte*>(kept[i - 1]);
        auto const distance = static_cast<std::byte*>(kept[i]) - before;
        far_apart += std::abs(distance) > std::ptrdiff_t{1} << 30 ? 1 : 0;
    }
    EXPECT_LT(far_apart, kArenas / 10) << "the next one takes what the one before gave back";
    for (int i = 0; i < kArenas; ++i) {
        EXPECT_EQ(std::memcmp(kept[static_cast<std::size_t>(i)], &i, sizeof(i)), 0);
        arena_free(kept[static_cast<std::size_t>(i)]);
    }
    EXPECT_EQ(arena_of(kept.front()), nullptr);
}

TEST(ArenaTest, blocks_of_every_zone_outlive_the_last_handle) {
    for (std::int64_t const kept_bytes : {std::int64_t{8}, 3 * kPageBytes, 2048 * kPageBytes}) {
        auto arena = *Arena::open({.limit_bytes = 4096 * kPageBytes});
        std::vector<void*> others;
        for (std::int64_t const size_bytes :
             {std::int64_t{64}, 5 * kPageBytes, 1024 * kPageBytes}) {
            others.push_back(arena->try_allocate(size_bytes));
        }
        auto* const kept = static_cast<std::byte*>(arena->try_allocate(kept_bytes));
        std::memset(kept, 7, static_cast<std::size_t>(kept_bytes));
        for (void* const other : others) {
            arena_free(other);
        }
        arena.reset();
        EXPECT_EQ(kept[0], std::byte{7});
        EXPECT_EQ(kept[kept_bytes - 1], std::byte{7});
        arena_free(kept);
        EXPECT_EQ(arena_of(kept), nullptr);
    }
}

TEST(ArenaDeathTest, a_block_is_freed_once_and_by_its_first_byte) {
    auto const arena = arena_of_pages(8);
    auto* const large = static_cast<std::byte*>(block_of_pages(*arena, 2));
    auto* const small = static_cast<std::byte*>(arena->try_allocate(64));
    int on_stack = 0;
    EXPECT_DEATH(arena->free(large + kPageBytes), "no live block starts here");
    EXPECT_DEATH(arena->free(large + 64), "no live block starts here");
    EXPECT_DEATH(arena->free(small + 1), "no live block starts here");
    EXPECT_DEATH(arena->free(&on_stack), "of this arena");
    EXPECT_DEATH(arena_free(&on_stack), "no arena owns");
    arena->free(large);
    EXPECT_DEATH(arena->free(large), "no live block starts here");
    arena->free(small);
}

#if !defined(SPILLWAY_SANITIZED)  // whose own needs of addresses are large
TEST(ArenaTest, fewer_addresses_are_taken_where_the_system_grants_no_more) {
    pid_t const child = ::fork();
    if (child == 0) {
        rlimit const few{std::size_t{1} << 30, std::size_t{1} << 30};
        ::setrlimit(RLIMIT_AS, &few);
        Result<std::shared_ptr<Arena>> const fits = Arena::open({.limit_bytes = 64_MiB});
        bool const works = fits.ok() && (*fits)->try_allocate(64_MiB) != nullptr;
        Result<std::shared_ptr<Arena>> const none = Arena::open({.limit_bytes = 2_GiB});
        bool const refused = !none.ok() && none.error().code == Errc::out_of_memory;
        ::_exit(works && refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}
#endif

#if defined(__SANITIZE_ADDRESS__)
TEST(ArenaDeathTest, use_after_free_is_found) {
    auto const arena = arena_of_pages(8);
    auto* const large = static_cast<char volatile*>(block_of_pages(*arena, 2));
    auto* const small = static_cast<char volatile*>(arena->try_allocate(64));
    auto* const neighbour = static_cast<char volatile*>(arena->try_allocate(64));
    arena->free(const_cast<char*>(large));
    arena->free(const_cast<char*>(small));
    EXPECT_DEATH(large[kPageBytes] = 1, "use-after-poison");
    EXPECT_DEATH(small[0] = 1, "use-after-poison");
    neighbour[0] = 1;
    EXPECT_DEATH(neighbour[64] = 1, "use-after-poison");
    arena->free(const_cast<char*>(neighbour));
}
#endif

TEST(CpuDeviceTest, it_is_the_arena_seen_as_a_device) {
    auto const device = *CpuDevice::open({.limit_bytes = 4 * kPageBytes});
    void* const block = device->try_allocate(2 * kPageBytes, {0});
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(device->owns(block));
    EXPECT_EQ(device->size_of(block), 2 * kPageBytes);
    EXPECT_EQ(device->rounded(5000), 2 * kPageBytes);
    EXPECT_EQ(device->usage().used_bytes, 2 * kPageBytes);
    EXPECT_EQ(device->limit_bytes(), 4 * kPageBytes);
    EXPECT_EQ(device->try_allocate(3 * kPageBytes, {0}), nullptr);
    device->free(block);
    EXPECT_EQ(device->take_peak(), 2 * kPageBytes);
    EXPECT_TRUE(device->passed(device->record(device->current_stream())));
    char const from[] = "bytes";
    char to[sizeof(from)] = {};
    EXPECT_TRUE(device->copy(to, from, sizeof(from), device->copy_out_stream()).ok());
    EXPECT_STREQ(to, "bytes");
}

TEST(CpuDeviceTest, what_it_lends_counts_and_leaves_less_until_it_is_back) {
    auto const device = *CpuDevice::open({.limit_bytes = 8 * kPageBytes});
    void* const early = device->try_allocate(6 * kPageBytes, {0});
    EXPECT_FALSE(device->lend(3 * kPageBytes));
    device->free(early);
    ASSERT_TRUE(device->lend(3 * kPageBytes));
    EXPECT_EQ(device->used_bytes(), 3 * kPageBytes);
    EXPECT_EQ(device->take_peak(), 6 * kPageBytes)
        << "not what was in use once and what is lent now";
    EXPECT_EQ(device->try_allocate(6 * kPageBytes, {0}), nullptr);
    void* const block = device->try_allocate(5 * kPageBytes, {0});
    EXPECT_NE(block, nullptr);
    EXPECT_FALSE(device->lend(kPageBytes));
    device->take_back(3 * kPageBytes);
    EXPECT_EQ(device->take_peak(), 8 * kPageBytes);
    EXPECT_LE(device->usage().resident_peak_bytes, 8 * kPageBytes);
    void* const more = device->try_allocate(3 * kPageBytes, {0});
    EXPECT_NE(more, nullptr);
    device->free(block);
    device->free(more);
}

TEST(CpuDeviceTest, a_bound_holds_besides_the_limit) {
    auto const device = *CpuDevice::open({.limit_bytes = 8 * kPageBytes});
    device->bound(2 * kPageBytes);
    EXPECT_EQ(device->limit_bytes(), 8 * kPageBytes);
    EXPECT_EQ(device->try_allocate(3 * kPageBytes, {0}), nullptr);
    ASSERT_TRUE(device->lend(kPageBytes));
    EXPECT_EQ(device->try_allocate(2 * kPageBytes, {0}), nullptr);
    device->take_back(kPageBytes);
    device->bound(CpuDevice::kUnbound);
    void* const block = device->try_allocate(8 * kPageBytes, {0});
    EXPECT_NE(block, nullptr);
    device->free(block);
    auto const free_one = *CpuDevice::open({.limit_bytes = 0});
    ASSERT_TRUE(free_one->lend(kPageBytes));
    EXPECT_EQ(free_one->used_bytes(), kPageBytes);
}

TEST(CpuDeviceTest, what_is_charged_counts_and_leaves_less) {
    auto const device = *CpuDevice::open({.limit_bytes = 8 * kPageBytes});
    device->charge(5 * kPageBytes);
    EXPECT_EQ(device->limit_bytes(), 8 * kPageBytes);
    EXPECT_EQ(device->used_bytes(), 5 * kPageBytes);
    EXPECT_EQ(device->usage().used_bytes, 5 * kPageBytes);
    EXPECT_EQ(device->try_allocate(4 * kPageBytes, {0}), nullptr);
    void* const block = device->try_allocate(3 * kPageBytes, {0});
    EXPECT_NE(block, nullptr);
    EXPECT_EQ(device->usage().peak_bytes, 8 * kPageBytes);
    EXPECT_EQ(device->take_peak(), 8 * kPageBytes);
    device->charge(0);
    EXPECT_EQ(device->used_bytes(), 3 * kPageBytes);
    device->free(block);
}

TEST(CpuDeviceTest, bad_options_are_refused) {
    EXPECT_EQ(CpuDevice::open({.limit_bytes = -1}).error().code, Errc::bad_argument);
}

}  // namespace
}  // namespace spillway
