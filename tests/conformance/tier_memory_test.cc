// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The suite on the tiers that live in memory.
#include "base/units.h"
#include "tier/faulty_tier.h"
#include "tier/host_tier.h"
#include "tier/memory_tier.h"
#include "tier_suite.h"

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

Result<std::unique_ptr<Tier>> open_faultless_host(std::int64_t capacity_bytes) {
    Result<std::unique_ptr<Tier>> host = HostTier::open(capacity_bytes);
    if (!host.ok()) {
        return host;
    }
    return std::unique_ptr<Tier>(std::make_unique<FaultyTier>(std::move(host).value()));
}

INSTANTIATE_TEST_SUITE_P(
    memory,
    TierSuite,
    testing::Values(
        TierUnderTest{.name = "memory", .block_bytes = 1_MiB, .open = open_memory},
        TierUnderTest{.name = "host", .block_bytes = 1_MiB, .open = HostTier::open},
        TierUnderTest{.name = "faultless_memory", .block_bytes = 1_MiB, .open = open_faultless},
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

TEST(HostTierTest, no_capacity_is_refused) {
    Result<std::unique_ptr<Tier>> const host = HostTier::open(100);
    ASSERT_FALSE(host.ok());
    EXPECT_EQ(host.error().code, Errc::bad_argument);
}

}  // namespace
}  // namespace spillway
