// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "probe/link_probe.h"

#include "base/units.h"
#include "memory/cpu_device.h"
#include "tier/faulty_tier.h"
#include "tier/memory_tier.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>

namespace spillway {
namespace {

constexpr std::int64_t kOnce = 0;  ///< each block once

TEST(LinkProbe, measures_both_ways_and_leaves_the_tier_as_it_was) {
    MemoryTier tier(64_MiB);
    Result<LinkRates> const rates = measure_tier(tier, kOnce);
    ASSERT_TRUE(rates.ok()) << rates.error().message();
    EXPECT_GT(rates->out, 0);
    EXPECT_GT(rates->in, 0);
    EXPECT_LE(rates->both_out, rates->out);
    EXPECT_LE(rates->both_in, rates->in);
    EXPECT_GT(rates->latency_ns, 0);
    EXPECT_EQ(tier.counters().used_bytes, 0);
}

TEST(LinkProbe, blocks_of_a_small_tier_are_smaller) {
    for (std::int64_t const size_bytes : {32_MiB, 1_MiB}) {
        MemoryTier tier(size_bytes);
        Result<LinkRates> const rates = measure_tier(tier, kOnce);
        ASSERT_TRUE(rates.ok()) << size_bytes << ": " << rates.error().message();
        EXPECT_GT(rates->out, 0);
        EXPECT_EQ(tier.counters().used_bytes, 0);
    }
}

TEST(LinkProbe, what_the_tier_cannot_do_is_its_error) {
    MemoryTier small(256_KiB);
    EXPECT_EQ(measure_tier(small, kOnce).error().code, Errc::tier_full);
    FaultyTier faulty(std::make_unique<MemoryTier>(64_MiB), {{.first = 3}});
    EXPECT_FALSE(measure_tier(faulty, kOnce).ok());
}

TEST(LinkProbe, measures_memory) {
    Result<double> const rate = measure_host_memory(kOnce);
    ASSERT_TRUE(rate.ok()) << rate.error().message();
    EXPECT_GT(*rate, 0);
}

struct LinkProbeBeside : testing::Test {
    std::shared_ptr<CpuDevice> device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
};

TEST_F(LinkProbeBeside, work_runs_alone_and_beside_moves) {
    // Stores wait until work has run beside them.
    using enum Fault::Kind;
    FaultyTier tier(
        std::make_unique<MemoryTier>(64_MiB), {{.kind = hold, .count = Fault::kForever}}
    );
    int alone = 0;
    int beside = 0;
    auto const work = [&] {
        tier.let_go();
        tier.counters().used_bytes > 0 ? ++beside : ++alone;
    };
    Result<double> const share = measure_interference(*device, tier, work, kOnce);
    ASSERT_TRUE(share.ok()) << share.error().message();
    EXPECT_GE(*share, 0);
    EXPECT_LE(*share, kMostInterference);
    EXPECT_GT(alone, 0);
    EXPECT_GT(beside, 0);
    EXPECT_EQ(tier.counters().used_bytes, 0);
}

TEST_F(LinkProbeBeside, an_error_of_moves_or_work_ends_both) {
    MemoryTier small(256_KiB);
    EXPECT_EQ(
        measure_interference(
            *device, small, [] {}, kOnce
        )
            .error()
            .code,
        Errc::tier_full
    );
    MemoryTier tier(64_MiB);
    int runs = 0;
    auto const throws_beside = [&] {
        if (++runs == 2) {  // the first is alone
            throw std::runtime_error("no memory");
        }
    };
    EXPECT_THROW(
        (void)measure_interference(*device, tier, throws_beside, kOnce), std::runtime_error
    );
    EXPECT_EQ(tier.counters().used_bytes, 0);
}

TEST(LinkProbe, a_machine_takes_its_links) {
    Machine machine{
        .name = "here",
        .tiers = {{"d", Pool::device, 1}, {"n", Pool::nvme, 1}},
        .links = {},
        .groups = {}};
    add_links(machine, Pool::nvme, {4e9, 5e9, 2e9, 3e9, 7});
    ASSERT_TRUE(validate(machine).ok());
    EXPECT_EQ(link_of(machine, Lane::nvme_write)->rate_bytes_per_s, 4e9);
    EXPECT_EQ(link_of(machine, Lane::nvme_read)->both_ways_rate_bytes_per_s, 3e9);
}

}  // namespace
}  // namespace spillway
