// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The mover's encodes and decodes, by hand-made commands on real tiers with injected faults.
#include "base/units.h"
#include "memory/cpu_device.h"
#include "mover/mover.h"
#include "tier/faulty_tier.h"
#include "tier/host_tier.h"
#include "tier/memory_tier.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kCount = 2000;  ///< elements of a block

Encoding encoding_of(char const* codec, std::int64_t count = kCount) {
    return {parse_codec(codec).value(), Dtype::f32, count};
}

/// 0 and 2 by turns that no codec has trouble with, among them `mask`.
std::vector<float> two_values(std::uint64_t seed, std::int64_t count = kCount) {
    std::mt19937_64 random(seed);
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) {
        value = random() % 3 == 0 ? 2.0F : 0.0F;
    }
    return values;
}

/// A mover with two tiers, and a vector for each block.
class CodedMovesTest : public testing::Test {
  protected:
    void open(std::vector<Fault> nvme_faults = {}, MoverOptions options = {}) {
        auto nvme = std::make_unique<FaultyTier>(
            std::make_unique<MemoryTier>(8_MiB), std::move(nvme_faults)
        );
        nvme_ = nvme.get();
        if (options.coded.bytes().empty()) {
            options.coded = map_host_memory(1_MiB).value();
        }
        mover_.reset();
        mover_ = std::make_unique<Mover>(
            *CpuDevice::open({.limit_bytes = 1_MiB}),
            HostTier::open(8_MiB).value(),
            std::move(nvme),
            std::move(options)
        );
    }
    static HeldBytes held(std::vector<float>& values) {
        return {std::as_writable_bytes(std::span(values)), nullptr, {}};
    }
    /// Fences 10 b for the encode and 10 b + 1 for the store of block b.
    void leave(std::int64_t block, char const* codec, Pool pool = Pool::nvme) {
        Encoding const encoding = encoding_of(codec, std::ssize(values_[block]));
        ASSERT_TRUE(mover_->reserve(pool, {block}, encoded_bytes(encoding).value()).ok());
        mover_->encode(
            {10 * block}, {block}, held(values_[block]), {encoding, 5, "linear_input"}, {}
        );
        std::array const after{CommandId{10 * block}};
        mover_->store({10 * block + 1}, {block}, {}, after);
    }
    /// Fences 10 b + 2 i for the i-th load, and one more for its decode into `back_`.
    void come_back(std::int64_t block, std::int64_t i = 1) {
        std::vector<float>& back = back_[10 * block + i];
        back.assign(values_[block].size(), -1.0F);
        std::array const stored{CommandId{10 * block + 1}};
        std::array const loaded{CommandId{10 * block + 2 * i}};
        mover_->load(loaded[0], {block}, {}, stored);
        mover_->decode({10 * block + 2 * i + 1}, {block}, held(back), loaded);
    }
    std::vector<float> const& back_of(std::int64_t block, std::int64_t i = 1) {
        return back_[10 * block + i];
    }
    void wait(std::int64_t fence) {
        std::array const fences{CommandId{fence}};
        mover_->wait(fences);
    }
    /// What is held may come to the tier late: a thread of the mover brings it there.
    void let_go_until_idle() {
        while (mover_->under_way() > 0) {
            nvme_->let_go();
            std::this_thread::yield();
        }
    }
    /// What became of every command since the last call.
    std::map<std::int64_t, Result<void>> outcomes() {
        std::map<std::int64_t, Result<void>> all;
        for (Completion& ended : mover_->take_completions()) {
            all.emplace(ended.command.number, std::move(ended.outcome));
        }
        return all;
    }
    void expect_all_ok() {
        for (auto const& [fence, outcome] : outcomes()) {
            EXPECT_TRUE(outcome.ok()) << fence << ": " << outcome.error().message();
        }
    }

    std::map<std::int64_t, std::vector<float>> values_;
    std::map<std::int64_t, std::vector<float>> back_;
    FaultyTier* nvme_ = nullptr;
    std::unique_ptr<Mover> mover_;
};

TEST_F(CodedMovesTest, exact_codecs_give_back_the_bits_from_every_tier) {
    open();
    std::int64_t block = 0;
    for (Pool const pool : kAwayPools) {
        for (char const* const codec : {"identity", "lossless", "mask"}) {
            values_[++block] = two_values(7);
            leave(block, codec, pool);
            come_back(block);
            wait(10 * block + 3);
            EXPECT_EQ(back_of(block), values_[block]) << codec;
            mover_->release({block});
        }
    }
    expect_all_ok();
}

TEST_F(CodedMovesTest, what_comes_back_is_what_the_codec_makes_of_it_with_the_seed) {
    open();
    values_[1] = two_values(3);
    values_[1][5] = 1.3F;
    Encoding const encoding = encoding_of("affine4:stochastic");
    leave(1, "affine4:stochastic");
    come_back(1);
    wait(13);
    std::vector<std::byte> coded(static_cast<std::size_t>(encoded_bytes(encoding).value()));
    std::vector<float> expected(values_[1].size());
    ASSERT_TRUE(encode(encoding, std::as_bytes(std::span(values_[1])), coded, 5).ok());
    ASSERT_TRUE(decode(encoding, coded, std::as_writable_bytes(std::span(expected))).ok());
    EXPECT_EQ(back_of(1), expected);
    EXPECT_EQ(mover_->counters(Pool::nvme).stored_bytes, std::ssize(coded));
}

TEST_F(CodedMovesTest, a_lossless_block_moves_only_what_it_became) {
    open();
    values_[1].assign(50'000, 1.5F);
    values_[1].back() = 2.5F;
    leave(1, "lossless");
    come_back(1);
    wait(13);
    EXPECT_EQ(back_of(1), values_[1]);
    TierCounters const counters = mover_->counters(Pool::nvme);
    EXPECT_LT(counters.stored_bytes, 100'000);
    EXPECT_EQ(counters.loaded_bytes, counters.stored_bytes);
    EXPECT_GT(counters.used_bytes, 200'000) << "its room is the most that it could be";
    EXPECT_EQ(mover_->coding_counters().at(0).encoded_bytes, counters.stored_bytes);
}

TEST_F(CodedMovesTest, counters_tell_what_coding_came_to) {
    open({}, {.measure = true});
    for (std::int64_t const block : {1, 2}) {
        values_[block] = two_values(static_cast<std::uint64_t>(block));
        values_[block][3] = 0.7F;
        leave(block, "affine2");
        come_back(block);
        wait(10 * block + 3);
    }
    std::int64_t const coded_bytes = encoded_bytes(encoding_of("affine2")).value();
    ASSERT_EQ(mover_->coding_counters().size(), 1U);
    CodingCounters const row = mover_->coding_counters()[0];
    EXPECT_EQ(row.label, "linear_input");
    EXPECT_EQ(row.values, 2);
    EXPECT_EQ(row.elements, 2 * kCount);
    EXPECT_EQ(row.raw_bytes, 8 * kCount);
    EXPECT_EQ(row.encoded_bytes, 2 * coded_bytes);
    EXPECT_EQ(row.decoded_bytes, 8 * kCount);
    EXPECT_GT(row.encode_ns, 0);
    EXPECT_GT(row.decode_ns, 0);
    EXPECT_GT(row.sums.of_errors, 0);
    EXPECT_GT(row.sums.of_values, row.sums.of_errors);
    for (Completion const& ended : mover_->take_completions()) {
        bool const is_transfer = ended.command.number % 10 == 1 || ended.command.number % 10 == 2;
        EXPECT_EQ(ended.on_tier.is_measured(), is_transfer) << ended.command.number;
        EXPECT_EQ(ended.on_codec.is_measured(), !is_transfer) << ended.command.number;
    }
}

TEST_F(CodedMovesTest, a_refused_encode_cancels_its_store_and_keeps_no_room) {
    open({}, {.coded = map_host_memory(16_KiB).value()});  // of one block each way
    for (std::int64_t block = 1; block <= 4; ++block) {
        values_[block] = two_values(1);
        values_[block][7] = block < 4 ? std::numeric_limits<float>::quiet_NaN() : 0.5F;
        leave(block, "affine8");
        wait(10 * block + 1);
    }
    std::map<std::int64_t, Result<void>> const all = outcomes();
    for (std::int64_t block = 1; block < 4; ++block) {
        ASSERT_FALSE(all.at(10 * block).ok());
        EXPECT_EQ(all.at(10 * block).error().code, Errc::unsupported);
        ASSERT_FALSE(all.at(10 * block + 1).ok());
        EXPECT_EQ(all.at(10 * block + 1).error().code, Errc::cancelled);
        mover_->release({block});
    }
    EXPECT_TRUE(all.at(40).ok() && all.at(41).ok()) << "the next one finds the room";
    EXPECT_EQ(mover_->coding_counters().at(0).went_raw, 3);
    EXPECT_EQ(mover_->coding_counters().at(0).values, 1);
    EXPECT_EQ(
        mover_->counters(Pool::nvme).stored_bytes, encoded_bytes(encoding_of("affine8")).value()
    );
}

TEST_F(CodedMovesTest, a_third_value_under_mask_is_refused) {
    open();
    values_[1] = two_values(1);
    values_[1].back() = 3.0F;
    leave(1, "mask");
    wait(11);
    std::map<std::int64_t, Result<void>> const all = outcomes();
    EXPECT_EQ(all.at(10).error().code, Errc::unsupported);
    EXPECT_EQ(all.at(11).error().code, Errc::cancelled);
}

TEST_F(CodedMovesTest, a_block_that_went_bad_in_memory_is_named_with_its_tier) {
    open({{.kind = Fault::Kind::garble, .way = Direction::load, .at_byte = 300, .at_bit = 4}});
    values_[1] = two_values(1);
    leave(1, "affine4");
    come_back(1);
    wait(13);
    std::map<std::int64_t, Result<void>> const all = outcomes();
    EXPECT_TRUE(all.at(12).ok()) << "the tier gave what it had";
    ASSERT_FALSE(all.at(13).ok());
    EXPECT_EQ(all.at(13).error().code, Errc::corrupt);
    EXPECT_EQ(all.at(13).error().where, "faulty memory");
    EXPECT_NE(all.at(13).error().what.find("cannot be decoded"), std::string::npos);
    come_back(1, 2);  // it is intact where it lies
    wait(15);
    expect_all_ok();
}

TEST_F(CodedMovesTest, what_a_load_says_for_itself_comes_through_its_decode) {
    for (bool const is_held : {false, true}) {  // given before or after the load has failed
        open(
            {{.kind = Fault::Kind::flip, .way = Direction::load, .at_byte = 100},
             {.kind = is_held ? Fault::Kind::hold : Fault::Kind::flip, .way = Direction::load}}
        );
        values_[1] = two_values(1);
        leave(1, "affine4");
        wait(11);
        come_back(1);
        let_go_until_idle();
        std::map<std::int64_t, Result<void>> const all = outcomes();
        ASSERT_FALSE(all.at(12).ok());
        EXPECT_EQ(all.at(12).error().code, Errc::corrupt);
        EXPECT_EQ(all.at(13).error(), all.at(12).error());
    }
}

TEST_F(CodedMovesTest, a_failed_store_cancels_all_that_follows) {
    open({{.kind = Fault::Kind::fail}}, {.coded = map_host_memory(16_KiB).value()});
    values_[1] = two_values(1);
    leave(1, "affine4");
    come_back(1);
    wait(13);
    std::map<std::int64_t, Result<void>> const all = outcomes();
    EXPECT_TRUE(all.at(10).ok());
    EXPECT_EQ(all.at(11).error().code, Errc::io);
    EXPECT_EQ(all.at(12).error().code, Errc::cancelled);
    EXPECT_EQ(all.at(13).error().code, Errc::cancelled);
    EXPECT_NE(all.at(13).error().what.find("by script"), std::string::npos);
    values_[2] = two_values(2);  // its room for coded bytes is there again, both ways
    leave(2, "affine4");
    come_back(2);
    wait(23);
    expect_all_ok();
}

TEST_F(CodedMovesTest, encodes_wait_for_room_and_all_get_through) {
    open({{.kind = Fault::Kind::hold, .count = 3}}, {.coded = map_host_memory(16_KiB).value()});
    for (std::int64_t block = 1; block <= 6; ++block) {
        values_[block] = two_values(static_cast<std::uint64_t>(block));
        leave(block, "affine8");  // of 2.2 KiB in pages: two fit half
    }
    wait(20);
    EXPECT_FALSE(mover_->ended({30})) << "both rooms are those of blocks whose stores are held";
    let_go_until_idle();
    for (std::int64_t block = 1; block <= 6; ++block) {
        come_back(block);
    }
    for (std::int64_t block = 1; block <= 6; ++block) {
        wait(10 * block + 3);
        EXPECT_EQ(back_of(block), values_[block]) << "two values are two of 256 steps";
    }
    expect_all_ok();
}

TEST_F(CodedMovesTest, an_encode_that_waits_for_room_stops_no_decode) {
    open(
        {{.kind = Fault::Kind::hold, .first = 1, .count = 2}},
        {.coded = map_host_memory(8_KiB).value()}
    );
    for (std::int64_t const block : {1, 2, 3}) {
        values_[block] = two_values(static_cast<std::uint64_t>(block));
        leave(block, "affine8");
    }
    come_back(1);
    wait(13);
    EXPECT_EQ(back_of(1), values_[1]);
    EXPECT_FALSE(mover_->ended({30}));
    let_go_until_idle();
}

// Room is for one block: the one from the host has it, so the other one's decode, which was given
// first, has to let its decode pass.
TEST_F(CodedMovesTest, a_decode_never_waits_behind_one_of_another_tier) {
    open({{.kind = Fault::Kind::hold}}, {.coded = map_host_memory(8_KiB).value()});
    values_[1] = two_values(1);
    values_[2] = two_values(2);
    leave(2, "affine8", Pool::host);
    wait(21);
    leave(1, "affine8", Pool::nvme);
    come_back(1);
    come_back(2);
    wait(23);
    EXPECT_EQ(back_of(2), values_[2]);
    let_go_until_idle();
    EXPECT_EQ(back_of(1), values_[1]);
    expect_all_ok();
}

TEST_F(CodedMovesTest, two_loads_of_one_block_are_each_decoded) {
    open({{.kind = Fault::Kind::hold, .way = Direction::load, .count = 2}});
    values_[1] = two_values(1);
    leave(1, "affine8");
    wait(11);
    come_back(1, 1);
    come_back(1, 2);
    let_go_until_idle();
    EXPECT_EQ(back_of(1, 1), values_[1]);
    EXPECT_EQ(back_of(1, 2), values_[1]);
    expect_all_ok();
    mover_->release({1});
}

TEST_F(CodedMovesTest, blocks_as_they_are_go_beside_coded_ones) {
    open();
    values_[1] = two_values(1);
    values_[2] = two_values(2);
    leave(1, "affine8");
    ASSERT_TRUE(mover_->reserve(Pool::nvme, {2}, 4 * kCount).ok());
    mover_->store({20}, {2}, held(values_[2]), {});
    std::vector<float> back(kCount);
    std::array const stored{CommandId{20}};
    mover_->load({21}, {2}, held(back), stored);
    wait(21);
    EXPECT_EQ(back, values_[2]);
    EXPECT_TRUE(mover_->is_coded({1}));
    EXPECT_FALSE(mover_->is_coded({2}));
    EXPECT_EQ(mover_->pool_of({2}), Pool::nvme);
    wait(11);
}

TEST_F(CodedMovesTest, without_threads_whoever_gives_a_command_codes) {
    open({}, {.coded = map_host_memory(64_KiB).value(), .codec_threads = 0});
    values_[1] = two_values(1);
    leave(1, "affine8");
    come_back(1);
    wait(13);
    EXPECT_EQ(back_of(1), values_[1]);
}

TEST_F(CodedMovesTest, room_that_no_store_came_for_goes_with_the_block) {
    open({}, {.coded = map_host_memory(8_KiB).value()});
    Encoding const encoding = encoding_of("affine8");
    for (std::int64_t block = 1; block <= 3; ++block) {
        values_[block] = two_values(1);
        ASSERT_TRUE(mover_->reserve(Pool::nvme, {block}, encoded_bytes(encoding).value()).ok());
        mover_->encode({block}, {block}, held(values_[block]), {encoding, 0, ""}, {});
        wait(block);
        mover_->release({block});
    }
    expect_all_ok();
}

TEST_F(CodedMovesTest, a_mover_may_go_while_it_encodes_and_decodes) {
    for (int round = 0; round < 20; ++round) {
        open({}, {.coded = map_host_memory(16_KiB).value()});
        for (std::int64_t block = 1; block <= 8; ++block) {
            values_[block] = two_values(1);
            leave(block, "affine4:stochastic", block % 2 == 0 ? Pool::host : Pool::nvme);
            come_back(block);
        }
        if (round % 2 == 0) {
            wait(10 + round / 2);
        }
        mover_.reset();
    }
}

TEST_F(CodedMovesTest, a_forked_child_leaves_encodes_to_the_parent) {
    open();
    values_[1] = two_values(1);
    leave(1, "affine8");
    pid_t const child = ::fork();
    if (child == 0) {
        mover_.reset();
        ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    come_back(1);
    wait(13);
    EXPECT_EQ(back_of(1), values_[1]);
}

TEST_F(CodedMovesTest, what_cannot_be_is_stopped_at_once) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    open({}, {.coded = map_host_memory(8_KiB).value()});
    values_[1] = two_values(1, 8000);
    EXPECT_DEATH(leave(1, "affine8"), "half of its staging");
}

/// Stores a value encoded, lets its bytes go, and brings it back, with ids of the thread's own.
void coded_trip(Mover& mover, std::mutex& turn, std::int64_t id, std::mt19937_64& random) {
    Pool const pool = random() % 2 == 0 ? Pool::host : Pool::nvme;
    constexpr std::array kCodecs{"identity", "mask", "affine8", "lossless", "affine4:group=32"};
    auto const count = static_cast<std::int64_t>(1 + random() % 4000);
    Encoding const encoding = encoding_of(kCodecs[random() % kCodecs.size()], count);
    std::vector<float> values = two_values(random(), count);
    bool const is_refused = random() % 8 == 0 && encoding.codec.kind == CodecKind::affine;
    values[0] = is_refused ? INFINITY : values[0];
    std::vector<float> back(values.size());
    auto const bytes = [](std::vector<float>& of) {
        return HeldBytes{std::as_writable_bytes(std::span(of)), nullptr, {}};
    };
    std::array const encoded{CommandId{4 * id}};
    std::array const stored{CommandId{4 * id + 1}};
    std::array const loaded{CommandId{4 * id + 2}};
    std::array const decoded{CommandId{4 * id + 3}};
    ASSERT_TRUE(mover.reserve(pool, {id}, encoded_bytes(encoding).value()).ok());
    {
        std::lock_guard const lock(turn);
        mover.encode(encoded[0], {id}, bytes(values), {encoding, random(), "thread"}, {});
        mover.store(stored[0], {id}, {}, encoded);
    }
    {
        std::lock_guard const lock(turn);
        mover.load(loaded[0], {id}, {}, stored);
        mover.decode(decoded[0], {id}, bytes(back), loaded);
    }
    mover.wait(decoded);
    EXPECT_EQ(back == values, !is_refused) << id << " " << to_text(encoding.codec);
    mover.release({id});
}

TEST_F(CodedMovesTest, many_threads_encode_and_decode_at_once_through_little_room) {
    for (int const codec_threads : {1, 3}) {
        open({}, {.coded = map_host_memory(64_KiB).value(), .codec_threads = codec_threads});
        std::atomic<std::int64_t> taken{0};
        std::mutex turn;
        std::vector<std::thread> threads;
        for (std::int64_t thread = 0; thread < 4; ++thread) {
            threads.emplace_back([&, thread] {
                std::mt19937_64 random(static_cast<std::uint64_t>(thread + 1));
                for (std::int64_t trip = 0; trip < 100; ++trip) {
                    ASSERT_NO_FATAL_FAILURE(coded_trip(*mover_, turn, 4 * trip + thread, random));
                    taken += std::ssize(mover_->take_completions());
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        taken += std::ssize(mover_->take_completions());
        EXPECT_EQ(taken.load(), 4 * 4 * 100);
        EXPECT_EQ(mover_->under_way(), 0);
    }
}

}  // namespace
}  // namespace spillway
