// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The mover against a tier that completes nothing until asked. Devices with streams: tests/late.
#include "mover/mover.h"

#include "base/units.h"
#include "memory/cpu_device.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace spillway {
namespace {

// What this process writes to stderr while it lives.
class StderrOfMover {
  public:
    StderrOfMover() : before_(::dup(STDERR_FILENO)) {
        EXPECT_EQ(::pipe(ends_.data()), 0);
        EXPECT_EQ(::dup2(ends_[1], STDERR_FILENO), STDERR_FILENO);
    }
    ~StderrOfMover() {
        ::dup2(before_, STDERR_FILENO);
        for (int const end : {before_, ends_[0], ends_[1]}) {
            ::close(end);
        }
    }

    // Waits until it is there.
    std::string next_line() {
        std::string line;
        for (char letter = 0; ::read(ends_[0], &letter, 1) == 1 && letter != '\n';) {
            line += letter;
        }
        return line;
    }

  private:
    int const before_;
    std::array<int, 2> ends_{};
};

// Holds every store and load until `finish`. Blocks are distinguished by their size.
class ManualTier final : public Tier {
  public:
    ~ManualTier() override { EXPECT_EQ(rooms_, 0) << "rooms are handed back before the tier goes"; }

    // What was started, as "s10" or "l10" (the block's size), in order.
    std::string started() {
        std::lock_guard const lock(guard_);
        return started_;
    }
    // Waits until `count` operations have been started in all.
    void wait_for_started(std::size_t count) {
        std::unique_lock lock(guard_);
        changed_.wait(lock, [&] { return operations_.size() >= count; });
    }
    // Ends the operation that was started as number `index`.
    void finish(std::size_t index, Result<void> outcome = {}) {
        TierDone done;
        {
            std::lock_guard const lock(guard_);
            done = std::exchange(operations_.at(index), nullptr);
        }
        done(std::move(outcome));
    }

    [[nodiscard]] std::string name() const override { return "manual"; }
    [[nodiscard]] std::int64_t alignment() const override { return 1; }
    [[nodiscard]] std::int64_t capacity_bytes() const override { return 1000; }
    void store(Reservation const& room, std::span<std::byte const>, TierDone done) override {
        begin('s', room, std::move(done));
    }
    void load(Reservation const& room, std::span<std::byte>, TierDone done) override {
        begin('l', room, std::move(done));
    }
    [[nodiscard]] TierCounters counters() const override { return {.stored_bytes = 42}; }
    void count_afresh() override {}

  private:
    void begin(char what, Reservation const& room, TierDone done) {
        std::lock_guard const lock(guard_);
        started_ += what + std::to_string(room.size_bytes()) + " ";
        operations_.push_back(std::move(done));
        changed_.notify_all();
    }
    [[nodiscard]] Result<std::int64_t> take_entry(std::int64_t size_bytes) override {
        if (size_bytes > capacity_bytes()) {
            return Error{Errc::tier_full, "no room", name()};
        }
        return rooms_++;
    }
    void give_entry_back(std::int64_t) noexcept override { --rooms_; }

    std::mutex guard_;
    std::condition_variable changed_;
    std::string started_;
    std::vector<TierDone> operations_;
    std::int64_t rooms_ = 0;
};

// A mover with a manual tier as NVMe. Block n has n bytes.
class MoverTest : public testing::Test {
  protected:
    void SetUp() override { open(*CpuDevice::open({.limit_bytes = 64_KiB})); }
    void open(std::shared_ptr<Device> device, MoverOptions options = {}) {
        auto nvme = std::make_unique<ManualTier>();
        tier_ = nvme.get();
        mover_.reset();
        mover_ = std::make_unique<Mover>(
            std::move(device), nullptr, std::move(nvme), std::move(options)
        );
    }
    void store(std::int64_t fence, std::int64_t block, std::vector<CommandId> after = {}) {
        ASSERT_TRUE(mover_->reserve(Pool::nvme, {block}, block).ok());
        mover_->store({fence}, {block}, {span(block), hold_}, after);
    }
    void load(std::int64_t fence, std::int64_t block, std::vector<CommandId> after = {}) {
        mover_->load({fence}, {block}, {span(block), hold_}, after);
    }
    std::span<std::byte> span(std::int64_t size_bytes) {
        return std::span(bytes_).first(static_cast<std::size_t>(size_bytes));
    }
    // "7 ok, 8 cancelled, ": what `take_completions` hands over.
    std::string completions() {
        std::string text;
        for (Completion const& ended : mover_->take_completions()) {
            text += std::to_string(ended.command.number) + " ";
            text += ended.outcome.ok() ? "ok" : std::string(name_of(ended.outcome.error().code));
            text += ", ";
        }
        return text;
    }
    void wait(std::int64_t fence) {
        std::array const fences{CommandId{fence}};
        mover_->wait(fences);
    }

    std::array<std::byte, 100> bytes_{};
    std::shared_ptr<void const> hold_;
    ManualTier* tier_ = nullptr;
    std::unique_ptr<Mover> mover_;
};

TEST_F(MoverTest, a_load_that_names_its_store_starts_when_that_has_ended) {
    store(1, 10);
    load(2, 10, {{1}});
    EXPECT_EQ(tier_->started(), "s10 ");
    EXPECT_FALSE(mover_->ended({1}));
    tier_->finish(0);
    EXPECT_TRUE(mover_->ended({1}));
    tier_->wait_for_started(2);
    EXPECT_EQ(tier_->started(), "s10 l10 ");
    tier_->finish(1);
    EXPECT_EQ(completions(), "1 ok, 2 ok, ");
}

TEST_F(MoverTest, completions_have_start_and_end_on_the_tier_where_that_is_asked_for) {
    for (bool const measure : {false, true}) {
        open(*CpuDevice::open({.limit_bytes = 64_KiB}), {.measure = measure});
        std::int64_t const before_ns = steady_now_ns();
        store(1, 10);
        tier_->finish(0);
        std::vector<Completion> const ended = mover_->take_completions();
        ASSERT_EQ(ended.size(), 1U);
        EXPECT_EQ(ended[0].on_tier.is_measured(), measure);
        EXPECT_FALSE(ended[0].on_stream.is_measured()) << "there are no streams";
        if (measure) {
            EXPECT_GE(ended[0].on_tier.start_ns, before_ns);
            EXPECT_GE(ended[0].on_tier.end_ns, ended[0].on_tier.start_ns);
            EXPECT_LE(ended[0].on_tier.end_ns, steady_now_ns());
        }
        mover_->release({10});
    }
}

TEST_F(MoverTest, lanes_start_in_order_and_not_after_each_other) {
    store(1, 10);
    store(2, 20);
    store(3, 30);
    load(4, 10);
    load(5, 20, {{1}});
    load(6, 30);
    EXPECT_EQ(tier_->started(), "s10 s20 s30 l10 ");  // 6 waits behind 5
    tier_->finish(0);
    tier_->wait_for_started(6);
    EXPECT_EQ(tier_->started(), "s10 s20 s30 l10 l20 l30 ");
    for (std::size_t i = 5; i > 0; --i) {
        tier_->finish(i);
    }
    EXPECT_EQ(completions(), "1 ok, 6 ok, 5 ok, 4 ok, 3 ok, 2 ok, ");
}

TEST_F(MoverTest, a_failed_store_cancels_its_load_and_what_waits_for_that) {
    store(1, 10);
    load(2, 10, {{1}});
    store(3, 20, {{2}});
    tier_->finish(0, Error{Errc::io, "the disk is gone", "file, 4096"});
    wait(3);
    EXPECT_EQ(tier_->started(), "s10 ");
    std::vector<Completion> const ended = mover_->take_completions();
    ASSERT_EQ(ended.size(), 3U);
    EXPECT_EQ(ended[0].outcome.error(), (Error{Errc::io, "the disk is gone", "file, 4096"}));
    for (std::size_t i = 1; i < 3; ++i) {
        EXPECT_EQ(ended[i].outcome.error().code, Errc::cancelled);
        EXPECT_EQ(ended[i].outcome.error().where, "file, 4096");
        EXPECT_EQ(
            ended[i].outcome.error().what, "not started, since command 1 failed: the disk is gone"
        );
    }
}

TEST_F(MoverTest, a_failure_is_remembered_after_it_was_taken) {
    store(1, 10);
    tier_->finish(0, Error{Errc::corrupt, "a bit flipped", ""});
    EXPECT_EQ(completions(), "1 corrupt, ");
    load(2, 10, {{1}});
    EXPECT_EQ(completions(), "2 cancelled, ");
}

TEST_F(MoverTest, holds_are_released_by_the_thread_that_takes) {
    std::optional<std::thread::id> released_on;
    hold_ = std::shared_ptr<void const>(&released_on, [](void const* id) {
        *const_cast<std::optional<std::thread::id>*>(
            static_cast<std::optional<std::thread::id> const*>(id)
        ) = std::this_thread::get_id();
    });
    store(1, 10);
    hold_.reset();
    std::thread([this] { tier_->finish(0); }).join();
    EXPECT_FALSE(released_on.has_value());
    EXPECT_TRUE(mover_->has_completions());
    EXPECT_EQ(completions(), "1 ok, ");
    EXPECT_EQ(released_on, std::this_thread::get_id());
    EXPECT_FALSE(mover_->has_completions());
}

TEST_F(MoverTest, wait_returns_when_all_fences_have_ended) {
    store(1, 10);
    store(2, 20);
    std::thread finisher([this] {
        tier_->finish(1);
        tier_->finish(0);
    });
    std::array const fences{CommandId{1}, CommandId{2}, CommandId{99}};
    EXPECT_GE(mover_->wait(fences), 0);
    EXPECT_TRUE(mover_->ended({1}) && mover_->ended({2}));
    EXPECT_EQ(mover_->wait(fences), 0);
    EXPECT_EQ(mover_->wait({}), 0);
    finisher.join();
}

TEST_F(MoverTest, wait_for_any_returns_with_something_to_take_or_with_nothing_under_way) {
    EXPECT_EQ(mover_->wait_for_any(), 0);
    store(1, 10);
    store(2, 20);
    EXPECT_EQ(mover_->under_way(), 2);
    std::thread finisher([this] { tier_->finish(1); });
    mover_->wait_for_any();
    EXPECT_EQ(completions(), "2 ok, ");
    finisher.join();
    tier_->finish(0);
    EXPECT_EQ(mover_->under_way(), 0);
}

TEST_F(MoverTest, the_destructor_drops_what_waits_and_waits_for_what_started) {
    store(1, 10);
    std::promise<void> dropped;
    hold_ = std::shared_ptr<void const>(&dropped, [&](void const*) { dropped.set_value(); });
    load(2, 10, {{1}});
    hold_.reset();
    std::atomic<bool> finished = false;
    std::thread finisher([&, tier = tier_] {
        dropped.get_future().wait();  // the destructor is at work
        finished = true;
        tier->finish(0);
    });
    mover_.reset();
    EXPECT_TRUE(finished);
    finisher.join();
}

TEST_F(MoverTest, a_wait_past_its_limit_names_both_who_waits_and_for_what) {
    open(*CpuDevice::open({.limit_bytes = 64_KiB}), {.patience = std::chrono::milliseconds(20)});
    store(7, 10);
    store(8, 20);
    std::string line;
    {
        StderrOfMover stderr_of_mover;
        std::thread finisher([&] {
            line = stderr_of_mover.next_line();
            tier_->finish(0);
        });
        std::vector<CommandId> const fences{{7}};
        EXPECT_GT(mover_->wait(fences), 0);
        finisher.join();
    }
    EXPECT_NE(line.find("compute has waited "), std::string::npos) << line;
    EXPECT_NE(
        line.find(" s for manual: a store of 10 B (command 7) has not ended; 2 are under way"),
        std::string::npos
    ) << line;
    tier_->finish(1);
}

TEST_F(MoverTest, rooms_come_from_the_pool_that_exists) {
    EXPECT_EQ(mover_->reserve(Pool::host, {1}, 10).error().code, Errc::tier_full);
    EXPECT_EQ(mover_->reserve(Pool::nvme, {1}, 1001).error().code, Errc::tier_full);
    EXPECT_TRUE(mover_->reserve(Pool::nvme, {1}, 1000).ok());
    mover_->release({1});
    EXPECT_TRUE(mover_->reserve(Pool::nvme, {1}, 10).ok());
    EXPECT_EQ(mover_->tier(Pool::host), nullptr);
    EXPECT_EQ(mover_->counters(Pool::nvme).stored_bytes, 42);
    EXPECT_EQ(mover_->counters(Pool::host), TierCounters{});
}

TEST_F(MoverTest, device_bytes_are_refused_with_what_is_left) {
    Result<void*> const reserved = mover_->reserve_device(60_KiB, {0});
    ASSERT_TRUE(reserved.ok());
    Error const error = mover_->reserve_device(8_KiB, {0}).error();
    EXPECT_EQ(error.code, Errc::out_of_memory);
    EXPECT_EQ(error.what, "8.0 KiB were asked for, 4.0 KiB of 64.0 KiB are left");
    mover_->release_device(*reserved);
    EXPECT_EQ(mover_->device().usage().used_bytes, 0);
}

TEST_F(MoverTest, releasing_a_block_in_use_aborts) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    store(1, 10);
    EXPECT_DEATH(mover_->release({10}), "after its stores and loads");
    EXPECT_DEATH(mover_->release({11}), "after it was reserved");
    tier_->finish(0);
    mover_->release({10});
}

}  // namespace
}  // namespace spillway
