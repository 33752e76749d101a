// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The suite on the tiers that live in memory.
#include "base/units.h"
#include "memory/host_memory.h"
#include "tier/faulty_tier.h"
#include "tier/host_tier.h"
#include "tier/memory_tier.h"
#include "tier/rate_limited_tier.h"
#include "tier_suite.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace spillway {
namespace {

Result<std::unique_ptr<Tier>> open_memory(std::int64_t capacity_bytes) {
    return std::unique_ptr<Tier>(std::make_unique<MemoryTier>(capacity_bytes));
}

Result<std::unique_ptr<Tier>> open_faultless(std::int64_t capacity_bytes) {
    return std::unique_ptr<Tier>(
        std::make_unique<FaultyTier>(std::make_unique<MemoryTier>(capacity_bytes))
    );
}

Result<std::unique_ptr<Tier>> open_host(std::int64_t capacity_bytes) {
    return HostTier::open(capacity_bytes);
}

/// On memory that somebody else made and locked, as a device's driver does.
Result<std::unique_ptr<Tier>> open_locked_host(std::int64_t capacity_bytes) {
    Result<HostMemory> memory = map_host_memory(capacity_bytes);
    if (!memory.ok()) {
        return memory.error();
    }
    memory->set_locked(std::ssize(memory->bytes()), [](std::span<std::byte>) {});
    return HostTier::open(std::move(memory).value());
}

Result<std::unique_ptr<Tier>> open_faultless_host(std::int64_t capacity_bytes) {
    Result<std::unique_ptr<Tier>> host = HostTier::open(capacity_bytes);
    if (!host.ok()) {
        return host;
    }
    return std::unique_ptr<Tier>(std::make_unique<FaultyTier>(std::move(host).value()));
}

/// At a rate that no test has to wait for.
Result<std::unique_ptr<Tier>> open_limited(std::int64_t capacity_bytes) {
    return std::unique_ptr<Tier>(std::make_unique<RateLimitedTier>(
        std::make_unique<MemoryTier>(capacity_bytes), BytesPerSec{1e11}
    ));
}

INSTANTIATE_TEST_SUITE_P(
    memory,
    TierSuite,
    testing::Values(
        TierUnderTest{.name = "memory", .block_bytes = 1_MiB, .open = open_memory},
        TierUnderTest{.name = "host", .block_bytes = 1_MiB, .open = open_host},
        TierUnderTest{.name = "locked_host", .block_bytes = 1_MiB, .open = open_locked_host},
        TierUnderTest{.name = "faultless_memory", .block_bytes = 1_MiB, .open = open_faultless},
        TierUnderTest{.name = "rate_limited", .block_bytes = 1_MiB, .open = open_limited},
        TierUnderTest{.name = "faultless_host", .block_bytes = 1_MiB, .open = open_faultless_host}
    ),
    name_of_param
);

TEST(HostTierTest, blocks_are_page_aligned_and_capacity_is_whole_pages) {
    Result<std::unique_ptr<Tier>> host = HostTier::open(3 * 4096 + 17);
    ASSERT_TRUE(host.ok());
    EXPECT_EQ((*host)->capacity_bytes(), 3 * 4096);
    Result<Reservation> const one = (*host)->reserve(1);
    ASSERT_TRUE(one.ok());
    EXPECT_EQ((*host)->counters().used_bytes, 4096);
}

TEST(HostTierTest, the_memory_of_a_room_holds_what_is_stored_there) {
    Result<std::unique_ptr<Tier>> host = HostTier::open(8 * 4096);
    ASSERT_TRUE(host.ok());
    std::vector<std::byte> const from = noise(5000, 1);
    Result<Reservation> const before = (*host)->reserve(100);
    Result<Reservation> const room = (*host)->reserve(std::ssize(from));
    ASSERT_TRUE(before.ok() && room.ok());
    SPILLWAY_EXPECT_OK(store_now(**host, *room, from));
    std::span<std::byte> const memory = (*host)->memory(*room);
    ASSERT_EQ(memory.size(), from.size());
    EXPECT_TRUE(std::equal(memory.begin(), memory.end(), from.begin()));
    EXPECT_EQ((*host)->memory(*before).data() + 4096, memory.data());
}

TEST(HostTierTest, a_tier_elsewhere_has_no_memory_to_reach) {
    MemoryTier memory(1_MiB);
    Result<Reservation> const room = memory.reserve(100);
    ASSERT_TRUE(room.ok());
    EXPECT_TRUE(memory.memory(*room).empty());
    EXPECT_EQ(memory.counters().requested_bytes, 0);
}

TEST(HostTierTest, counters_tell_what_was_asked_for_and_what_is_locked) {
    Result<std::unique_ptr<Tier>> const pageable = open_host(4 * 4096 + 1);
    Result<std::unique_ptr<Tier>> const locked = open_locked_host(4 * 4096 + 1);
    ASSERT_TRUE(pageable.ok() && locked.ok());
    EXPECT_EQ((*pageable)->counters().requested_bytes, 4 * 4096 + 1);
    EXPECT_EQ((*pageable)->counters().locked_bytes, 0);
    EXPECT_EQ((*locked)->counters().requested_bytes, 4 * 4096 + 1);
    EXPECT_EQ((*locked)->counters().locked_bytes, 4 * 4096);
}

TEST(HostTierTest, no_capacity_is_refused) {
    Result<std::unique_ptr<Tier>> const host = HostTier::open(100);
    ASSERT_FALSE(host.ok());
    EXPECT_EQ(host.error().code, Errc::bad_argument);
}

}  // namespace
}  // namespace spillway
