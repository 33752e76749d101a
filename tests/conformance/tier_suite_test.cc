// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "tier_suite.h"

#include "base/units.h"

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

namespace spillway {

void PrintTo(TierUnderTest const& tier, std::ostream* out) {
    *out << tier.name;
}

std::string name_of_param(testing::TestParamInfo<TierUnderTest> const& info) {
    return info.param.name;
}

TierDone Ending::done() {
    return [promise = promise_](Result<void> result) { promise->set_value(std::move(result)); };
}

Result<void> Ending::wait() {
    return promise_->get_future().get();
}

Result<void> store_now(Tier& tier, Reservation const& room, std::span<std::byte const> from) {
    Ending ending;
    tier.store(room, from, ending.done());
    return ending.wait();
}

Result<void> load_now(Tier& tier, Reservation const& room, std::span<std::byte> to) {
    Ending ending;
    tier.load(room, to, ending.done());
    return ending.wait();
}

namespace {

void fill_noise(std::span<std::byte> bytes, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
        std::uint64_t const word = random();
        std::memcpy(bytes.data() + i, &word, std::min<std::size_t>(8, bytes.size() - i));
    }
}

}  // namespace

std::vector<std::byte> noise(std::int64_t size_bytes, std::uint64_t seed) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(size_bytes));
    fill_noise(bytes, seed);
    return bytes;
}

PageBytes::PageBytes(std::int64_t size_bytes, std::int64_t misalign_bytes)
    : size_bytes_(size_bytes),
      first_(0),
      memory_(static_cast<std::size_t>(size_bytes + misalign_bytes + 4096)) {
    auto const address = reinterpret_cast<std::intptr_t>(memory_.data());
    first_ = round_up(address, 4096) - address + misalign_bytes;
}

std::span<std::byte> PageBytes::span() {
    return std::span(memory_).subspan(
        static_cast<std::size_t>(first_), static_cast<std::size_t>(size_bytes_)
    );
}

void PageBytes::fill(std::uint64_t seed) {
    fill_noise(span(), seed);
}

ScratchFolder::ScratchFolder() {
    std::string path = (std::filesystem::current_path() / "tier-test-XXXXXX").string();
    char* const made = ::mkdtemp(path.data());
    SPILLWAY_ASSERT(made != nullptr, "the tests need a writable working folder");
    path_ = path;
    owner_ = ::getpid();
}

ScratchFolder::~ScratchFolder() {
    if (::getpid() != owner_) {  // a forked child ends
        return;
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> ScratchFolder::names() const {
    std::vector<std::string> found;
    for (auto const& entry : std::filesystem::directory_iterator(path_)) {
        found.push_back(entry.path().filename().string());
    }
    return found;
}

std::int64_t open_descriptors() {
    auto const all = std::filesystem::directory_iterator("/proc/self/fd");
    return std::distance(begin(all), end(all));
}

void TierSuite::SetUp() {
    if (std::optional<std::string> const why = GetParam().missing()) {
        GTEST_SKIP() << *why;
    }
}

void TierSuite::open(std::int64_t capacity_bytes) {
    tier_.reset();
    Result<std::unique_ptr<Tier>> opened = GetParam().open(capacity_bytes);
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    tier_ = std::move(opened).value();
}

TEST_P(TierSuite, store_then_load_returns_same_bytes_at_every_size_and_address) {
    ASSERT_NO_FATAL_FAILURE(open(64_MiB));
    std::int64_t const block = GetParam().block_bytes;
    for (std::int64_t const size :
         {std::int64_t{1},
          std::int64_t{63},
          std::int64_t{4095},
          std::int64_t{4096},
          std::int64_t{4097},
          block - 1,
          block,
          block + 1,
          5 * block + 4096,
          5_MiB + 7}) {
        for (std::int64_t const misalign : {0, 64, 1}) {
            SCOPED_TRACE(testing::Message() << "size " << size << " misaligned " << misalign);
            PageBytes from(size, misalign);
            PageBytes to(size, misalign == 64 ? 0 : misalign);
            from.fill(static_cast<std::uint64_t>(size + misalign));
            Result<Reservation> room = tier_->reserve(size);
            ASSERT_TRUE(room.ok()) << room.error().message();
            SPILLWAY_EXPECT_OK(store_now(*tier_, *room, from.span()));
            SPILLWAY_EXPECT_OK(load_now(*tier_, *room, to.span()));
            ASSERT_EQ(0, std::memcmp(from.span().data(), to.span().data(), from.span().size()));
        }
    }
}

TEST_P(TierSuite, a_load_touches_nothing_around_its_span) {
    ASSERT_NO_FATAL_FAILURE(open(8_MiB));
    std::vector<std::byte> const from = noise(5000, 1);
    std::vector<std::byte> around(5000 + 2 * 4096, std::byte{0x5a});
    Result<Reservation> room = tier_->reserve(5000);
    ASSERT_TRUE(room.ok());
    SPILLWAY_EXPECT_OK(store_now(*tier_, *room, from));
    SPILLWAY_EXPECT_OK(load_now(*tier_, *room, std::span(around).subspan(4096, 5000)));
    for (std::size_t i = 0; i < 4096; ++i) {
        ASSERT_EQ(around[i], std::byte{0x5a});
        ASSERT_EQ(around[4096 + 5000 + i], std::byte{0x5a});
    }
}

TEST_P(TierSuite, a_block_shorter_than_its_room_comes_back_as_it_was_stored_last) {
    std::int64_t const block = GetParam().block_bytes;
    std::int64_t const room_bytes = 3 * block;
    ASSERT_NO_FATAL_FAILURE(open(16_MiB));
    Reservation const room = std::move(tier_->reserve(room_bytes)).value();
    for (std::int64_t const size :
         {room_bytes, std::int64_t{1}, block + 4097, block, block - 1, 2 * block, room_bytes - 1}) {
        for (std::int64_t const misalign : {0, 1}) {
            SCOPED_TRACE(testing::Message() << "size " << size << " misaligned " << misalign);
            PageBytes from(size, misalign);
            from.fill(static_cast<std::uint64_t>(size + misalign));
            std::vector<std::byte> around(static_cast<std::size_t>(size + 4096), std::byte{0x5a});
            auto const to = std::span(around).first(static_cast<std::size_t>(size));
            SPILLWAY_EXPECT_OK(store_now(*tier_, room, from.span()));
            SPILLWAY_EXPECT_OK(load_now(*tier_, room, to));
            ASSERT_EQ(0, std::memcmp(from.span().data(), to.data(), to.size()));
            ASSERT_EQ(around[to.size()], std::byte{0x5a});
            SPILLWAY_EXPECT_OK(tier_->damage(room, size - 1, 1, std::byte{1}));
            EXPECT_FALSE(load_now(*tier_, room, to).ok()) << "its last byte has a checksum, too";
        }
    }
    EXPECT_GE(tier_->counters().used_bytes, room_bytes) << "the room stays as it was reserved";
}

TEST_P(TierSuite, many_in_flight_from_several_threads_all_come_back) {
    constexpr int kThreads = 4;
    constexpr std::size_t kBlocks = 12;
    ASSERT_NO_FATAL_FAILURE(open(64_MiB));
    auto const work = [this](std::uint64_t seed) {
        std::vector<std::vector<std::byte>> from(kBlocks);
        std::vector<std::vector<std::byte>> to(kBlocks);
        std::vector<Reservation> rooms;
        std::vector<Ending> stores(kBlocks);
        std::vector<Ending> loads(kBlocks);
        for (std::size_t i = 0; i < kBlocks; ++i) {
            from[i] = noise(static_cast<std::int64_t>(1 + 97'003 * i), seed * 100 + i);
            to[i].resize(from[i].size());
            rooms.push_back(std::move(tier_->reserve(std::ssize(from[i]))).value());
            tier_->store(rooms[i], from[i], stores[i].done());
        }
        for (std::size_t i = 0; i < kBlocks; ++i) {
            SPILLWAY_EXPECT_OK(stores[i].wait());
            tier_->load(rooms[i], to[i], loads[i].done());
        }
        for (std::size_t i = 0; i < kBlocks; ++i) {
            SPILLWAY_EXPECT_OK(loads[i].wait());
            EXPECT_EQ(from[i], to[i]);
        }
    };
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back(work, i);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(tier_->counters().used_bytes, 0);
}

TEST_P(TierSuite, a_block_is_loaded_as_often_as_wanted_also_at_once) {
    ASSERT_NO_FATAL_FAILURE(open(8_MiB));
    std::vector<std::byte> const from = noise(300'001, 3);
    Result<Reservation> room = tier_->reserve(std::ssize(from));
    ASSERT_TRUE(room.ok());
    SPILLWAY_EXPECT_OK(store_now(*tier_, *room, from));
    std::vector<std::vector<std::byte>> to(5, std::vector<std::byte>(from.size()));
    std::vector<Ending> loads(to.size());
    for (std::size_t i = 0; i < to.size(); ++i) {
        tier_->load(*room, to[i], loads[i].done());
    }
    for (std::size_t i = 0; i < to.size(); ++i) {
        SPILLWAY_EXPECT_OK(loads[i].wait());
        EXPECT_EQ(from, to[i]);
    }
}

TEST_P(TierSuite, random_reservations_never_overlap_and_are_all_released) {
    std::mt19937_64 random(1);
    constexpr std::int64_t kCapacity = 4_MiB;
    ASSERT_NO_FATAL_FAILURE(open(kCapacity));
    struct Held {
        Reservation room;
        std::vector<std::byte> bytes;  ///< as many as the room has, or fewer
    };
    std::vector<Held> held;
    for (int round = 0; round < 150; ++round) {
        if (!held.empty() && random() % 3 == 0) {  // what was stored is there, unless overlapped
            std::swap(held[random() % held.size()], held.back());
            std::vector<std::byte> to(held.back().bytes.size());
            SPILLWAY_EXPECT_OK(load_now(*tier_, held.back().room, to));
            ASSERT_EQ(to, held.back().bytes);
            held.pop_back();
            continue;
        }
        auto const size = static_cast<std::int64_t>(1 + random() % 200'000);
        Result<Reservation> room = tier_->reserve(size);
        ASSERT_LE(tier_->counters().used_bytes, kCapacity);
        if (!room.ok()) {
            ASSERT_EQ(room.error().code, Errc::tier_full);
            continue;
        }
        bool const whole = random() % 2 == 0;
        auto const stored =
            whole ? size : static_cast<std::int64_t>(1 + random() % static_cast<unsigned>(size));
        held.push_back({std::move(room).value(), noise(stored, random())});
        SPILLWAY_EXPECT_OK(store_now(*tier_, held.back().room, held.back().bytes));
    }
    EXPECT_GT(tier_->counters().peak_used_bytes, 0);
    held.clear();
    EXPECT_EQ(tier_->counters().used_bytes, 0);
    EXPECT_TRUE(tier_->reserve(kCapacity).ok()) << "the free space is not one piece again";
}

TEST_P(TierSuite, a_full_tier_says_so_and_is_used_again_after_a_release) {
    ASSERT_NO_FATAL_FAILURE(open(1_MiB));
    EXPECT_EQ(tier_->capacity_bytes(), 1_MiB);
    Result<Reservation> first = tier_->reserve(600'000);
    ASSERT_TRUE(first.ok());
    Result<Reservation> second = tier_->reserve(600'000);
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.error().code, Errc::tier_full);
    EXPECT_NE(second.error().what.find("585.9 KiB"), std::string::npos) << second.error().what;
    EXPECT_FALSE(tier_->reserve(std::int64_t{1} << 62).ok());
    first->reset();
    EXPECT_TRUE(tier_->reserve(600'000).ok());
}

TEST_P(TierSuite, a_reservation_moves_and_is_handed_back_once) {
    ASSERT_NO_FATAL_FAILURE(open(1_MiB));
    Reservation first = std::move(tier_->reserve(1000)).value();
    Reservation second = std::move(first);
    EXPECT_FALSE(first.valid());  // NOLINT: what is moved from is what is tested
    EXPECT_TRUE(second.valid());
    EXPECT_EQ(second.size_bytes(), 1000);
    first = std::move(second);
    first.reset();
    first.reset();
    EXPECT_EQ(tier_->counters().used_bytes, 0);
}

TEST_P(TierSuite, loading_what_was_never_stored_is_an_error) {
    ASSERT_NO_FATAL_FAILURE(open(1_MiB));
    std::vector<std::byte> to(100);
    {
        Reservation const old = std::move(tier_->reserve(100)).value();
        SPILLWAY_EXPECT_OK(store_now(*tier_, old, to));
    }
    Reservation const room = std::move(tier_->reserve(100)).value();  // the same place
    Result<void> const loaded = load_now(*tier_, room, to);
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code, Errc::bad_argument);
    EXPECT_FALSE(loaded.error().where.empty());
}

TEST_P(TierSuite, counters_count_payload_that_ended_well) {
    ASSERT_NO_FATAL_FAILURE(open(8_MiB));
    std::vector<std::byte> const from = noise(70'001, 4);
    std::vector<std::byte> to(from.size());
    {
        Reservation const room = std::move(tier_->reserve(std::ssize(from))).value();
        EXPECT_GE(tier_->counters().used_bytes, std::ssize(from));
        SPILLWAY_EXPECT_OK(store_now(*tier_, room, from));
        SPILLWAY_EXPECT_OK(load_now(*tier_, room, to));
        SPILLWAY_EXPECT_OK(load_now(*tier_, room, to));
    }
    TierCounters const counters = tier_->counters();
    EXPECT_EQ(counters.stored_bytes, 70'001);
    EXPECT_EQ(counters.loaded_bytes, 140'002);
    EXPECT_GT(counters.store_ns, 0);
    EXPECT_GT(counters.load_ns, 0);
    EXPECT_EQ(counters.used_bytes, 0);
    EXPECT_GE(counters.peak_used_bytes, 70'001);
    EXPECT_EQ(counters, tier_->counters()) << "an idle tier counts on";
}

TEST_P(TierSuite, every_flipped_bit_is_caught_and_its_place_named) {
    ASSERT_NO_FATAL_FAILURE(open(16_MiB));
    std::int64_t const size = 2 * GetParam().block_bytes + 5000;
    std::vector<std::byte> const from = noise(size, 5);
    std::vector<std::byte> to(from.size());
    Reservation const room = std::move(tier_->reserve(size)).value();
    SPILLWAY_EXPECT_OK(store_now(*tier_, room, from));
    std::mt19937_64 random(6);
    for (int i = 0; i < 24; ++i) {
        std::int64_t const random_byte = static_cast<std::int64_t>(random() >> 1) % size;
        std::int64_t const byte = i == 0 ? 0 : i == 1 ? size - 1 : random_byte;
        std::byte const bit = std::byte{1} << (i % 8);
        SPILLWAY_EXPECT_OK(tier_->damage(room, byte, 1, bit));
        Result<void> const loaded = load_now(*tier_, room, to);
        ASSERT_FALSE(loaded.ok()) << "byte " << byte;
        EXPECT_EQ(loaded.error().code, Errc::corrupt);
        EXPECT_NE(loaded.error().where.find("offset"), std::string::npos) << loaded.error().where;
        SPILLWAY_EXPECT_OK(tier_->damage(room, byte, 1, bit));  // and back
        SPILLWAY_EXPECT_OK(load_now(*tier_, room, to));
    }
    EXPECT_EQ(from, to);
}

TEST_P(TierSuite, closing_waits_for_what_is_in_flight) {
    ASSERT_NO_FATAL_FAILURE(open(32_MiB));
    std::vector<std::byte> const from = noise(900'000, 7);
    std::atomic<int> ended = 0;
    constexpr int kStores = 20;
    {
        std::vector<Reservation> rooms(kStores);
        for (Reservation& room : rooms) {
            room = std::move(tier_->reserve(std::ssize(from))).value();
            tier_->store(room, from, [&ended, &room](Result<void> const& stored) {
                SPILLWAY_EXPECT_OK(stored);
                room.reset();
                ++ended;
            });
        }
        tier_.reset();
    }
    EXPECT_EQ(ended, kStores);
}

TEST_P(TierSuite, a_done_may_start_the_next_operation) {
    ASSERT_NO_FATAL_FAILURE(open(8_MiB));
    std::vector<std::byte> const from = noise(100'000, 8);
    std::vector<std::byte> to(from.size());
    Reservation const room = std::move(tier_->reserve(std::ssize(from))).value();
    Ending ending;
    tier_->store(room, from, [&](Result<void> const& stored) {
        SPILLWAY_EXPECT_OK(stored);
        tier_->load(room, to, ending.done());
    });
    SPILLWAY_EXPECT_OK(ending.wait());
    EXPECT_EQ(from, to);
}

TEST_P(TierSuite, closing_gives_every_descriptor_back) {
    ASSERT_NO_FATAL_FAILURE(open(8_MiB));  // what is opened once per process is open after this
    tier_.reset();
    std::int64_t const before = open_descriptors();
    ASSERT_NO_FATAL_FAILURE(open(8_MiB));
    std::vector<std::byte> const from = noise(100'000, 9);
    {
        Reservation const room = std::move(tier_->reserve(std::ssize(from))).value();
        SPILLWAY_EXPECT_OK(store_now(*tier_, room, from));
    }
    tier_.reset();
    EXPECT_EQ(open_descriptors(), before);
}

}  // namespace spillway
