// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Random use of an arena, against a model that knows every live block, and against the kernel,
// which knows which pages are resident. Then the same with many threads.
#include "memory/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kPage = kArenaPageBytes;
using Random = std::mt19937_64;

std::int64_t some_size(Random& random, std::int64_t limit_bytes) {
    auto const below = [&](std::int64_t n) {
        return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
    };
    switch (random() % 4) {
        case 0:
            return below(2100);
        case 1:
            return below(4 * kPage);
        case 2:
            return below(limit_bytes / 8);
        default:
            return below(limit_bytes / 2);
    }
}

// What an arena should report. Writes a mark to both ends of a block and to every page of it.
class Model {
  public:
    explicit Model(std::int64_t limit_bytes)
        : limit_bytes_(limit_bytes), arena_(*Arena::open({limit_bytes, 64 * limit_bytes})) {}
    ~Model() {
        while (!live_.empty()) {
            free_one(live_.begin());
        }
    }

    void step(Random& random) {
        if (live_.empty() || random() % 5 < 3) {
            allocate(some_size(random, limit_bytes_));
        } else {
            free_one(std::next(live_.begin(), static_cast<std::ptrdiff_t>(random() % live_.size()))
            );
        }
        std::int64_t const used = used_bytes();
        ArenaUsage const usage = arena_->usage();
        ASSERT_EQ(usage.used_bytes, used);
        ASSERT_EQ(usage.peak_bytes, peak_);
        ASSERT_EQ(usage.allocations, std::ssize(live_));
        ASSERT_LE(used, usage.resident_bytes);
        ASSERT_LE(usage.resident_peak_bytes, limit_bytes_);
    }

    // Counts the resident pages between the lowest and the highest block there ever was.
    void ask_the_kernel() {
        if (highest_ == nullptr) {
            return;
        }
        auto const span = static_cast<std::size_t>(highest_ - lowest_);
        std::vector<unsigned char> pages(span / kPage + 1);
        ASSERT_EQ(::mincore(lowest_, span, pages.data()), 0);
        auto const resident = std::count_if(pages.begin(), pages.end(), [](unsigned char page) {
            return (page & 1U) != 0;
        });
        ASSERT_LE(resident * kPage, arena_->usage().resident_bytes);
        ASSERT_GE(resident * kPage, used_bytes());  // every used page was written
    }

  private:
    struct Block {
        std::int64_t size_bytes = 0;
        unsigned char mark = 0;
    };
    using Blocks = std::map<std::byte*, Block>;

    void allocate(std::int64_t size_bytes) {
        std::int64_t const used_before = used_bytes();
        auto* const block = static_cast<std::byte*>(arena_->try_allocate(size_bytes));
        std::int64_t const rounded = arena_->rounded(size_bytes);
        if (block == nullptr) {
            ASSERT_GT(used_before + rounded, limit_bytes_) << "refused without need";
            return;
        }
        bool const small = size_bytes <= 2048;
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % (small ? 64U : 4096U), 0U);
        ASSERT_EQ(arena_->size_of(block), rounded);
        auto const after = live_.lower_bound(block);
        ASSERT_TRUE(after == live_.end() || block + rounded <= after->first) << "overlap";
        ASSERT_TRUE(
            after == live_.begin() ||
            std::prev(after)->first + std::prev(after)->second.size_bytes <= block
        ) << "overlap";
        Block const& added = live_[block] = {rounded, ++mark_};
        for (std::int64_t i = 0; i < rounded; i += kPage) {
            block[i] = std::byte{added.mark};
        }
        block[rounded - 1] = std::byte{added.mark};
        peak_ = std::max(peak_, used_bytes());
        ASSERT_LE(used_bytes(), limit_bytes_);
        lowest_ = lowest_ == nullptr ? page_of(block) : std::min(lowest_, page_of(block));
        highest_ = std::max(highest_, block + rounded);
    }

    void free_one(Blocks::iterator entry) {
        auto const [first, block] = *entry;
        for (std::int64_t i = 0; i < block.size_bytes; i += kPage) {
            EXPECT_EQ(first[i], std::byte{block.mark}) << "someone wrote here";
        }
        EXPECT_EQ(first[block.size_bytes - 1], std::byte{block.mark}) << "someone wrote here";
        live_.erase(entry);
        arena_free(first);
    }

    static std::byte* page_of(std::byte* address) {
        return address - reinterpret_cast<std::uintptr_t>(address) % kPage;
    }

    [[nodiscard]] std::int64_t used_bytes() const {
        std::int64_t paged = 0;
        std::set<std::byte*> slabs;
        for (auto const& [first, block] : live_) {
            if (block.size_bytes < kPage) {
                slabs.insert(page_of(first));
            } else {
                paged += block.size_bytes;
            }
        }
        return paged + std::ssize(slabs) * kPage;
    }

    std::int64_t const limit_bytes_;
    std::shared_ptr<Arena> arena_;
    Blocks live_;
    std::int64_t peak_ = 0;
    unsigned char mark_ = 0;
    std::byte* lowest_ = nullptr;
    std::byte* highest_ = nullptr;
};

TEST(ArenaFuzzTest, random_use_agrees_with_the_model_and_the_kernel) {
    for (std::uint64_t const seed : {11U, 12U, 13U, 14U, 15U, 16U, 17U, 18U, 19U, 20U}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        Model model(kPage * static_cast<std::int64_t>(16 << (random() % 6)));
        for (int i = 0; i < 3000; ++i) {
            ASSERT_NO_FATAL_FAILURE(model.step(random));
            if (i % 16 == 0) {
                ASSERT_NO_FATAL_FAILURE(model.ask_the_kernel());
            }
        }
    }
}

TEST(ArenaFuzzTest, random_use_with_long_blocks_agrees_with_the_model_and_the_kernel) {
    for (std::uint64_t const seed : {31U, 32U, 33U, 34U}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Random random(seed);
        Model model(kHugePageBytes * static_cast<std::int64_t>(4 << (random() % 3)) + 5 * kPage);
        for (int i = 0; i < 1200; ++i) {
            ASSERT_NO_FATAL_FAILURE(model.step(random));
            if (i % 16 == 0) {
                ASSERT_NO_FATAL_FAILURE(model.ask_the_kernel());
            }
        }
    }
}

// A pool of blocks that threads put into and take from, so that blocks are freed by other threads.
class Exchange {
  public:
    void* swap(std::size_t place, void* block) {
        std::lock_guard const lock(guard_);
        return std::exchange(blocks_[place], block);
    }

  private:
    std::mutex guard_;
    std::array<void*, 64> blocks_{};
};

void use_arena(Arena& arena, Exchange& exchange, std::uint64_t seed) {
    Random random(seed);
    for (int i = 0; i < 3000; ++i) {
        std::int64_t const size_bytes = some_size(random, arena.limit_bytes() / 8);
        auto* const block = static_cast<std::byte*>(arena.try_allocate(size_bytes));
        if (block != nullptr) {
            std::int64_t const last = arena.rounded(size_bytes) - 1;
            block[0] = block[last] = std::byte(random());
            ASSERT_EQ(block[0], block[last]);
        }
        auto* const other = static_cast<std::byte*>(exchange.swap(random() % 64, block));
        if (other != nullptr) {
            ASSERT_EQ(other[0], other[arena.size_of(other) - 1]);
            arena_free(other);
        }
    }
}

TEST(ArenaFuzzTest, threads_allocate_and_free_each_others_blocks) {
    auto const arena = *Arena::open({.limit_bytes = 256 * kPage});
    Exchange exchange;
    std::vector<std::thread> threads;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        threads.emplace_back([&, seed] { use_arena(*arena, exchange, seed); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    for (std::size_t place = 0; place < 64; ++place) {
        arena_free(exchange.swap(place, nullptr));
    }
    EXPECT_EQ(arena->usage().used_bytes, 0);
    EXPECT_EQ(arena->usage().allocations, 0);
    EXPECT_LE(arena->usage().resident_peak_bytes, 256 * kPage);
}

TEST(ArenaFuzzTest, arenas_come_and_go_while_others_are_asked) {
    auto const stays = *Arena::open({.limit_bytes = 16 * kPage});
    void* const block = stays->try_allocate(kPage);
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
        threads.emplace_back([&] {
            for (int round = 0; round < 200; ++round) {
                auto passing = *Arena::open({.limit_bytes = 16 * kPage});
                void* const mine = passing->try_allocate(kPage);
                ASSERT_EQ(arena_of(mine), passing.get());
                ASSERT_EQ(arena_of(block), stays.get());
                passing.reset();
                arena_free(mine);
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    arena_free(block);
}

TEST(ArenaFuzzTest, a_forked_child_can_allocate_whatever_other_threads_did) {
    auto const arena = *Arena::open({.limit_bytes = 64 * kPage});
    std::atomic<bool> stop = false;
    std::thread busy([&] {
        while (!stop) {
            arena_free(arena->try_allocate(8 * kPage));
        }
    });
    for (int i = 0; i < 50; ++i) {
        pid_t const child = ::fork();
        if (child == 0) {
            arena_free(arena->try_allocate(kPage));
            ::_exit(arena->usage().used_bytes <= 8 * kPage ? 0 : 1);
        }
        int status = -1;
        ASSERT_EQ(::waitpid(child, &status, 0), child);
        ASSERT_EQ(status, 0);
    }
    stop = true;
    busy.join();
}

}  // namespace
}  // namespace spillway
