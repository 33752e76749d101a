// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The mover on real tiers with threads of their own: many threads give commands at once, and the
// bytes come back.
#include "base/units.h"
#include "memory/cpu_device.h"
#include "mover/mover.h"
#include "tier/host_tier.h"
#include "tier/memory_tier.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace spillway {
namespace {

std::unique_ptr<Mover> mover_on_memory() {
    return std::make_unique<Mover>(
        *CpuDevice::open({.limit_bytes = 4_MiB}),
        HostTier::open(8_MiB).value(),
        std::make_unique<MemoryTier>(8_MiB)
    );
}

// Stores a value, lets its bytes go, and loads them elsewhere, with ids of the thread's own.
void round_trip(Mover& mover, std::int64_t id, std::mt19937& random) {
    Pool const pool = random() % 2 == 0 ? Pool::host : Pool::nvme;
    auto const size_bytes = static_cast<std::int64_t>(1 + random() % 20'000);
    auto const size = static_cast<std::size_t>(size_bytes);
    BlockId const block{id};
    CommandId const stored{2 * id};
    CommandId const loaded{2 * id + 1};
    ASSERT_TRUE(mover.reserve(pool, block, size_bytes).ok());
    Result<void*> const from = mover.reserve_device(size_bytes, {0});
    Result<void*> const to = mover.reserve_device(size_bytes, {0});
    ASSERT_TRUE(from.ok() && to.ok());
    std::memset(*from, static_cast<int>(id % 251), size);
    std::memset(*to, 255, size);
    auto const owner = std::make_shared<int>(1);
    mover.store(stored, block, {{static_cast<std::byte*>(*from), size}, owner}, {});
    std::array const after{stored};
    mover.load(loaded, block, {{static_cast<std::byte*>(*to), size}, owner}, after);
    std::array const both{stored, loaded};
    mover.wait(both);
    EXPECT_EQ(std::memcmp(*from, *to, size), 0);
    mover.release(block);
    mover.release_device(*from);
    mover.release_device(*to);
}

TEST(MoverThreadsTest, many_threads_store_and_load_at_once) {
    auto const mover = mover_on_memory();
    constexpr std::int64_t kThreads = 4;
    constexpr std::int64_t kTrips = 200;
    std::atomic<std::int64_t> taken{0};
    std::vector<std::thread> threads;
    for (std::int64_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            std::mt19937 random(static_cast<std::uint32_t>(thread + 1));
            for (std::int64_t trip = 0; trip < kTrips; ++trip) {
                ASSERT_NO_FATAL_FAILURE(round_trip(*mover, trip * kThreads + thread, random));
                for (Completion const& ended : mover->take_completions()) {
                    EXPECT_TRUE(ended.outcome.ok());
                    ++taken;
                }
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    taken += std::ssize(mover->take_completions());
    EXPECT_EQ(taken.load(), 2 * kThreads * kTrips);
    EXPECT_EQ(mover->under_way(), 0);
    EXPECT_EQ(mover->device().usage().used_bytes, 0);
}

TEST(MoverThreadsTest, a_long_chain_across_pools_runs_in_order) {
    auto const mover = mover_on_memory();
    constexpr std::int64_t kLinks = 300;
    std::array<std::byte, 64> block{};
    std::vector<CommandId> after;
    for (std::int64_t link = 0; link < kLinks; ++link) {
        Pool const pool = link % 2 == 0 ? Pool::host : Pool::nvme;
        ASSERT_TRUE(mover->reserve(pool, {link}, 64).ok());
        mover->store({link}, {link}, {block}, after);
        after = {{link}};
    }
    mover->wait(after);
    std::vector<Completion> const ended = mover->take_completions();
    ASSERT_EQ(std::ssize(ended), kLinks);
    for (std::int64_t link = 0; link < kLinks; ++link) {
        EXPECT_EQ(ended[static_cast<std::size_t>(link)].command, CommandId{link});
    }
}

TEST(MoverThreadsTest, a_mover_may_go_while_its_tiers_are_busy) {
    for (int round = 0; round < 20; ++round) {
        std::vector<std::byte> from(64_KiB);
        std::vector<std::byte> to(64_KiB);
        auto const mover = mover_on_memory();
        std::vector<CommandId> after;
        for (std::int64_t i = 0; i < 20; ++i) {
            ASSERT_TRUE(mover->reserve(Pool::host, {i}, 64_KiB).ok());
            mover->store({2 * i}, {i}, {from}, {});
            after = {{2 * i}};
            mover->load({2 * i + 1}, {i}, {to}, after);
        }
    }
}

TEST(MoverThreadsTest, a_forked_child_leaves_the_mover_to_the_parent) {
    auto mover = mover_on_memory();
    pid_t const child = ::fork();
    if (child == 0) {
        mover.reset();
        ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    std::mt19937 random(1);
    round_trip(*mover, 1, random);
}

}  // namespace
}  // namespace spillway
