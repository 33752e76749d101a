// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The faulty tier: each fault does what its line of the script says, and is noticed where it must.
#include "base/units.h"
#include "tier/faulty_tier.h"
#include "tier/host_tier.h"
#include "tier/memory_tier.h"
#include "tier/nvme_tier.h"
#include "tier_suite.h"

#include <atomic>
#include <chrono>

namespace spillway {
namespace {

std::unique_ptr<FaultyTier> faulty_memory(std::vector<Fault> script) {
    return std::make_unique<FaultyTier>(std::make_unique<MemoryTier>(8_MiB), std::move(script));
}

TEST(FaultyTierTest, the_nth_store_fails_and_the_others_do_not) {
    auto const tier = faulty_memory({{.kind = Fault::Kind::fail, .first = 1}});
    std::vector<std::byte> const bytes = noise(100, 1);
    Reservation const room = std::move(tier->reserve(100)).value();
    SPILLWAY_EXPECT_OK(store_now(*tier, room, bytes));
    Result<void> const failed = store_now(*tier, room, bytes);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, Errc::io);
    SPILLWAY_EXPECT_OK(store_now(*tier, room, bytes));
}

TEST(FaultyTierTest, the_nth_load_fails_with_the_error_asked_for) {
    auto const tier =
        faulty_memory({{.kind = Fault::Kind::fail, .way = Direction::load, .code = Errc::corrupt}});
    std::vector<std::byte> bytes = noise(100, 1);
    Reservation const room = std::move(tier->reserve(100)).value();
    SPILLWAY_EXPECT_OK(store_now(*tier, room, bytes));
    Result<void> const failed = load_now(*tier, room, bytes);
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, Errc::corrupt);
    SPILLWAY_EXPECT_OK(load_now(*tier, room, bytes));
}

TEST(FaultyTierTest, a_held_store_reads_its_bytes_only_when_it_is_let_go) {
    auto const tier = faulty_memory({{.kind = Fault::Kind::hold}});
    std::vector<std::byte> bytes(100, std::byte{1});
    std::vector<std::byte> to(100);
    Reservation const room = std::move(tier->reserve(100)).value();
    std::atomic<bool> ended = false;
    tier->store(room, bytes, [&ended](Result<void> const&) { ended = true; });
    EXPECT_FALSE(ended);
    EXPECT_EQ(tier->held(), 1);
    std::fill(bytes.begin(), bytes.end(), std::byte{2});  // a caller that reuses too early
    tier->let_go();
    EXPECT_TRUE(ended);
    SPILLWAY_EXPECT_OK(load_now(*tier, room, to));
    EXPECT_EQ(to, bytes) << "so the mistake shows in the bytes";
}

TEST(FaultyTierTest, a_held_operation_starts_after_so_many_later_ones) {
    auto const tier = faulty_memory({{.kind = Fault::Kind::hold, .later_operations = 2}});
    std::vector<std::byte> const bytes = noise(100, 1);
    std::vector<Reservation> rooms(3);
    std::vector<bool> ended(3, false);
    for (std::size_t i = 0; i < rooms.size(); ++i) {
        rooms[i] = std::move(tier->reserve(100)).value();
        tier->store(rooms[i], bytes, [&ended, i](Result<void> const&) { ended[i] = true; });
        EXPECT_EQ(ended[0], i == 2);
        EXPECT_TRUE(i == 0 || ended[i]);
    }
}

TEST(FaultyTierTest, closing_lets_go_of_what_is_held) {
    auto tier = faulty_memory({{.kind = Fault::Kind::hold, .count = Fault::kForever}});
    std::vector<std::byte> const bytes = noise(100, 1);
    Reservation room = std::move(tier->reserve(100)).value();
    bool ended = false;
    tier->store(room, bytes, [&](Result<void> const& stored) {
        ended = stored.ok();
        room.reset();
    });
    tier.reset();
    EXPECT_TRUE(ended);
}

TEST(FaultyTierTest, a_full_tier_is_full_from_where_the_script_says) {
    auto const tier =
        faulty_memory({{.kind = Fault::Kind::full, .first = 1, .count = Fault::kForever}});
    EXPECT_TRUE(tier->reserve(10).ok());
    Result<Reservation> const refused = tier->reserve(10);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, Errc::tier_full);
    EXPECT_FALSE(tier->reserve(10).ok());
}

TEST(FaultyTierTest, a_delay_takes_real_time_and_keeps_the_bytes) {
    auto const tier = faulty_memory({});
    tier->set_delay_ms(3);
    std::vector<std::byte> const bytes = noise(1000, 1);
    std::vector<std::byte> to(1000);
    Reservation const room = std::move(tier->reserve(1000)).value();
    auto const start = std::chrono::steady_clock::now();
    SPILLWAY_EXPECT_OK(store_now(*tier, room, bytes));
    SPILLWAY_EXPECT_OK(load_now(*tier, room, to));
    EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(6));
    EXPECT_EQ(bytes, to);
}

class FaultsBelowChecksum : public testing::TestWithParam<std::string> {
  protected:
    Result<std::unique_ptr<Tier>> open() {
        if (GetParam() == "memory") {
            return std::unique_ptr<Tier>(std::make_unique<MemoryTier>(8_MiB));
        }
        if (GetParam() == "host") {
            return HostTier::open(8_MiB);
        }
        return open_nvme_tier(
            {.folder = folder_.path(),
             .capacity_bytes = 8_MiB,
             .allow_tmpfs = true,
             .piece_bytes = 65536,
             .queue_depth = 4,
             .force_buffered = GetParam() == "nvme_buffered"}
        );
    }
    /// What a load says after a store under `fault`.
    Result<void> store_and_load(Fault fault) {
        FaultyTier tier(std::move(open()).value(), {fault});
        std::vector<std::byte> bytes = noise(200'000, 1);
        Reservation const room = std::move(tier.reserve(std::ssize(bytes))).value();
        SPILLWAY_EXPECT_OK(store_now(tier, room, bytes));
        return load_now(tier, room, bytes);
    }
    ScratchFolder folder_;
};

TEST_P(FaultsBelowChecksum, a_bit_flipped_by_the_store_is_caught) {
    Result<void> const loaded =
        store_and_load({.kind = Fault::Kind::flip, .at_byte = 70'000, .at_bit = 3});
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code, Errc::corrupt);
    EXPECT_NE(loaded.error().where.find("offset"), std::string::npos);
}

TEST_P(FaultsBelowChecksum, a_bit_flipped_before_the_load_is_caught) {
    Result<void> const loaded = store_and_load(
        {.kind = Fault::Kind::flip, .way = Direction::load, .at_byte = 199'999, .at_bit = 7}
    );
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code, Errc::corrupt);
}

TEST_P(FaultsBelowChecksum, a_store_cut_short_is_caught) {
    for (std::int64_t const arrived :
         {std::int64_t{0}, std::int64_t{65'536}, std::int64_t{199'999}}) {
        Result<void> const loaded = store_and_load({.kind = Fault::Kind::cut, .at_byte = arrived});
        ASSERT_FALSE(loaded.ok()) << arrived;
        EXPECT_EQ(loaded.error().code, Errc::corrupt);
    }
}

TEST_P(FaultsBelowChecksum, memory_that_goes_bad_after_the_load_is_not_the_tiers_to_notice) {
    FaultyTier tier(
        std::move(open()).value(),
        {{.kind = Fault::Kind::garble, .way = Direction::load, .at_byte = 5, .at_bit = 2}}
    );
    std::vector<std::byte> const from = noise(5'000, 1);
    std::vector<std::byte> to(from.size());
    Reservation const room = std::move(tier.reserve(std::ssize(from))).value();
    SPILLWAY_EXPECT_OK(store_now(tier, room, from));
    SPILLWAY_EXPECT_OK(load_now(tier, room, to));
    EXPECT_EQ(to[5] ^ from[5], std::byte{4});
    to[5] = from[5];
    EXPECT_EQ(to, from);
}

TEST_P(FaultsBelowChecksum, what_is_cut_of_a_short_block_is_counted_from_its_own_end) {
    FaultyTier tier(std::move(open()).value(), {{.kind = Fault::Kind::cut, .at_byte = 4'999}});
    std::vector<std::byte> bytes = noise(5'000, 1);
    Reservation const room = std::move(tier.reserve(50'000)).value();
    SPILLWAY_EXPECT_OK(store_now(tier, room, bytes));
    EXPECT_FALSE(load_now(tier, room, bytes).ok());
    SPILLWAY_EXPECT_OK(store_now(tier, room, std::span(bytes).first(4'999)));
    SPILLWAY_EXPECT_OK(load_now(tier, room, std::span(bytes).first(4'999)));
}

INSTANTIATE_TEST_SUITE_P(
    tiers,
    FaultsBelowChecksum,
    testing::Values("memory", "host", "nvme", "nvme_buffered"),
    [](testing::TestParamInfo<std::string> const& tier) { return tier.param; }
);

TEST(FaultyTierTest, a_flipped_bit_on_disk_names_file_and_offset_of_its_piece) {
    ScratchFolder const folder;
    FaultyTier tier(
        std::move(open_nvme_tier(
                      {.folder = folder.path(),
                       .capacity_bytes = 8_MiB,
                       .allow_tmpfs = true,
                       .piece_bytes = 65536,
                       .queue_depth = 4}
                  ))
            .value(),
        {{.kind = Fault::Kind::flip, .at_byte = 70'000}}
    );
    std::vector<std::byte> bytes = noise(200'000, 1);
    Reservation const room = std::move(tier.reserve(std::ssize(bytes))).value();
    SPILLWAY_EXPECT_OK(store_now(tier, room, bytes));
    Result<void> const loaded = load_now(tier, room, bytes);
    ASSERT_FALSE(loaded.ok());
    EXPECT_NE(loaded.error().where.find(folder.path()), std::string::npos);
    EXPECT_NE(loaded.error().where.find("offset 65536"), std::string::npos) << loaded.error().where;
}

}  // namespace
}  // namespace spillway
