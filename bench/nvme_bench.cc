// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Our side of bench-nvme: stores and loads of random blocks of the device's arena through the
// public calls of the NVMe tier, checksums on. Prints one JSON object; bench/nvme.py compares it
// with fio.
#include "base/units.h"
#include "memory/arena.h"
#include "tier/nvme_tier.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kBlockBytes = 32_MiB;
constexpr std::size_t kInFlight = 4;

struct Settings {
    NvmeOptions tier;
    std::int64_t size_bytes = 2_GiB;
};

/// Blocks of random bytes, where a session's tensors lie: in the arena of the device.
class Blocks {
  public:
    Blocks() {
        std::mt19937_64 random(1);
        for (void*& block : blocks_) {
            block = arena_->try_allocate(kBlockBytes);
            SPILLWAY_ASSERT(block != nullptr, "the arena has room for the blocks");
            for (std::int64_t i = 0; i < kBlockBytes; i += 8) {
                std::uint64_t const word = random();
                std::memcpy(static_cast<std::byte*>(block) + i, &word, sizeof word);
            }
        }
    }
    Blocks(Blocks const&) = delete;
    Blocks& operator=(Blocks const&) = delete;
    ~Blocks() {
        for (void* const block : blocks_) {
            arena_->free(block);
        }
    }

    [[nodiscard]] std::span<std::byte> at(std::size_t number) const {
        return {static_cast<std::byte*>(blocks_[number % kInFlight]), kBlockBytes};
    }

  private:
    std::shared_ptr<Arena> arena_ = *Arena::open({.limit_bytes = kInFlight * kBlockBytes});
    std::array<void*, kInFlight> blocks_{};
};

/// Counts what is in flight; remembers the first error.
class Flight {
  public:
    void enter() {
        std::unique_lock lock(guard_);
        changed_.wait(lock, [this] { return count_ < kInFlight; });
        ++count_;
    }
    void leave(Result<void> const& result) {
        std::lock_guard const lock(guard_);
        if (!result.ok() && error_.empty()) {
            error_ = result.error().message();
        }
        --count_;
        changed_.notify_all();
    }
    /// The first error, "" when all went well.
    [[nodiscard]] std::string land() {
        std::unique_lock lock(guard_);
        changed_.wait(lock, [this] { return count_ == 0; });
        return error_;
    }

  private:
    std::mutex guard_;
    std::condition_variable changed_;
    std::size_t count_ = 0;
    std::string error_;
};

double cpu_seconds() {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    auto const seconds = [](timeval time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

struct Rate {
    double gb_per_s = 0;
    double cpu_s_per_gb = 0;
    std::string error;
};

/// Calls `start(i, done)` for every block, a few in flight.
template <typename Start>
Rate timed(std::size_t count, Start start) {
    Flight flight;
    double const cpu = cpu_seconds();
    auto const begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < count; ++i) {
        flight.enter();
        start(i, [&flight](Result<void> const& result) { flight.leave(result); });
    }
    std::string error = flight.land();
    std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
    double const gb = static_cast<double>(count) * static_cast<double>(kBlockBytes) / 1e9;
    return {gb / took.count(), (cpu_seconds() - cpu) / gb, std::move(error)};
}

int fail(std::string const& why) {
    fmt::print(stderr, "nvme_bench: {}\n", why);
    return 2;
}

int run(Settings settings) {
    settings.tier.capacity_bytes = settings.size_bytes;
    Result<std::unique_ptr<Tier>> tier = open_nvme_tier(settings.tier);
    if (!tier.ok()) {
        return fail(tier.error().message());
    }
    Blocks const blocks;
    auto const count = static_cast<std::size_t>(settings.size_bytes / kBlockBytes);
    std::vector<Reservation> rooms;
    for (std::size_t i = 0; i < count; ++i) {
        Result<Reservation> room = (*tier)->reserve(kBlockBytes);
        if (!room.ok()) {
            return fail(room.error().message());
        }
        rooms.push_back(std::move(room).value());
    }
    Rate const write = timed(count, [&](std::size_t i, TierDone done) {
        (*tier)->store(rooms[i], blocks.at(i), std::move(done));
    });
    Rate const read = timed(count, [&](std::size_t i, TierDone done) {
        (*tier)->load(rooms[i], blocks.at(i), std::move(done));
    });
    if (!write.error.empty() || !read.error.empty()) {
        return fail(write.error + read.error);
    }
    fmt::print(
        "{{\"write_gb_per_s\": {:.4f}, \"read_gb_per_s\": {:.4f}, \"write_cpu_s_per_gb\": {:.4f}, "
        "\"read_cpu_s_per_gb\": {:.4f}}}\n",
        write.gb_per_s,
        read.gb_per_s,
        write.cpu_s_per_gb,
        read.cpu_s_per_gb
    );
    return 0;
}

int main_of(std::vector<std::string> const& arguments) {
    Settings settings;
    for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
        std::string const& flag = arguments[i];
        std::string const& value = arguments[i + 1];
        Result<std::int64_t> const size = parse_size(value, 0);
        if (flag == "--folder") {
            settings.tier.folder = value;
        } else if (!size.ok()) {
            return fail(size.error().message());
        } else if (flag == "--size") {
            settings.size_bytes = *size;
        } else if (flag == "--io") {
            settings.tier.piece_bytes = *size;
        } else if (flag == "--depth") {
            settings.tier.queue_depth = static_cast<int>(*size);
        } else if (flag == "--threads") {
            settings.tier.force_thread_pool = *size != 0;
        } else {
            return fail("unknown flag " + flag);
        }
    }
    return run(settings);
}

}  // namespace
}  // namespace spillway

int main(int argc, char** argv) {
    return spillway::main_of({argv + 1, argv + argc});
}
