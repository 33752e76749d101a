// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier/rate_limited_tier.h"

#include "tier/faulty_tier.h"
#include "tier/memory_tier.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <future>
#include <memory>
#include <utility>
#include <vector>

namespace spillway {
namespace {

constexpr BytesPerSec kByteANano{1e9};

/// A tier behind a link of a byte a nanosecond, on a clock that only the test moves.
class Link {
  public:
    explicit Link(std::vector<Fault> faults = {}) {
        auto wrapped =
            std::make_unique<FaultyTier>(std::make_unique<MemoryTier>(1_MiB), std::move(faults));
        faulty = wrapped.get();
        tier = std::make_unique<RateLimitedTier>(std::move(wrapped), kByteANano, [this] {
            return now_ns_.load();
        });
    }
    void advance_to(std::int64_t now_ns) {
        now_ns_ = now_ns;
        tier->look_at_clock();
    }

  private:
    std::atomic<std::int64_t> now_ns_ = 0;

  public:
    FaultyTier* faulty = nullptr;
    std::unique_ptr<RateLimitedTier> tier;
};

/// A block of a size and its room.
struct Block {
    Block(Link& link, std::size_t size) : link_(link), bytes(size, std::byte{7}) {
        room = std::move(link.tier->reserve(std::ssize(bytes))).value();
    }
    void store() { link_.tier->store(room, bytes, ending()); }
    void load() {
        ended = std::make_shared<std::promise<Result<void>>>();
        did_end = false;
        link_.tier->load(room, bytes, ending());
    }
    Result<void> wait() { return ended->get_future().get(); }
    /// The block may be gone as soon as it has told.
    TierDone ending() {
        return [this, told = ended](Result<void> const& outcome) {
            did_end = true;
            told->set_value(outcome);
        };
    }

    Link& link_;
    std::vector<std::byte> bytes;
    Reservation room;
    std::shared_ptr<std::promise<Result<void>>> ended =
        std::make_shared<std::promise<Result<void>>>();
    std::atomic<bool> did_end = false;
};

TEST(RateLimitedTierTest, a_block_ends_when_its_bytes_have_had_their_time) {
    Link link;
    Block block(link, 1000);
    block.store();
    link.advance_to(999);
    EXPECT_FALSE(block.did_end);
    link.advance_to(1000);
    EXPECT_TRUE(block.wait().ok());
}

TEST(RateLimitedTierTest, blocks_of_one_direction_follow_each_other) {
    Link link;
    Block first(link, 1000);
    Block second(link, 500);
    first.store();
    second.store();
    link.advance_to(1499);
    EXPECT_TRUE(first.wait().ok());
    EXPECT_FALSE(second.did_end);
    link.advance_to(1500);
    EXPECT_TRUE(second.wait().ok());
}

TEST(RateLimitedTierTest, an_idle_link_saves_no_time_up) {
    Link link;
    Block first(link, 1000);
    link.advance_to(5000);
    first.store();
    link.advance_to(5999);
    EXPECT_FALSE(first.did_end);
    link.advance_to(6000);
    EXPECT_TRUE(first.wait().ok());
}

TEST(RateLimitedTierTest, each_way_has_a_rate_of_its_own) {
    Link link;
    Block back(link, 1000);
    Block out(link, 10'000);
    back.store();
    link.advance_to(1000);
    EXPECT_TRUE(back.wait().ok());
    out.store();
    back.load();
    link.advance_to(2000);
    EXPECT_TRUE(back.wait().ok()) << "the store beside it does not slow it";
    EXPECT_FALSE(out.did_end);
    link.advance_to(11'000);
    EXPECT_TRUE(out.wait().ok());
}

TEST(RateLimitedTierTest, without_limits_what_is_in_flight_ends) {
    Link link;
    Block waiting(link, 100'000);
    Block behind(link, 100'000);
    waiting.store();
    behind.store();
    link.advance_to(1);
    EXPECT_FALSE(waiting.did_end);
    link.tier->end_limits();
    EXPECT_TRUE(waiting.wait().ok());
    EXPECT_TRUE(behind.wait().ok());
}

TEST(RateLimitedTierTest, a_tier_that_is_slower_than_its_link_sets_the_pace) {
    Link link({{.kind = Fault::Kind::hold}});
    Block slow(link, 1000);
    Block next(link, 10);
    slow.store();
    next.store();
    link.advance_to(3000);
    EXPECT_FALSE(slow.did_end);
    EXPECT_FALSE(next.did_end) << "blocks of one direction end in order";
    link.faulty->let_go();
    EXPECT_TRUE(slow.wait().ok());
    link.advance_to(3009);
    EXPECT_FALSE(next.did_end) << "it follows the end of the slow one";
    link.advance_to(3010);
    EXPECT_TRUE(next.wait().ok());
}

TEST(RateLimitedTierTest, errors_come_through_and_name_is_said) {
    Link link({{.kind = Fault::Kind::fail, .code = Errc::io}});
    Block block(link, 10);
    block.store();
    link.advance_to(10);
    Result<void> const failed = block.wait();
    ASSERT_FALSE(failed.ok());
    EXPECT_EQ(failed.error().code, Errc::io);
    EXPECT_EQ(link.tier->name(), "rate-limited faulty memory");
}

TEST(RateLimitedTierTest, closing_does_not_wait_for_the_time) {
    Link link;
    Block block(link, 1000);
    bool ended = false;
    link.tier->store(block.room, block.bytes, [&](Result<void> const& outcome) {
        ended = outcome.ok();
        block.room.reset();
    });
    link.tier.reset();
    EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace spillway
