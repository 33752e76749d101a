// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "probe/link_probe.h"

#include "base/clock.h"
#include "base/mutex.h"
#include "base/units.h"
#include "memory/host_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace spillway {

namespace {

constexpr std::int64_t kBlockBytes = 4_MiB;
constexpr std::int64_t kLeastBytes = 64_KiB;  ///< of a block, where there is no room for more
constexpr std::int64_t kCopiedBytes = 64_MiB;
constexpr std::int64_t kSmallBytes = 4_KiB;
constexpr int kInFlight = 4;
constexpr std::size_t kTurns = 3;
constexpr std::chrono::microseconds kPollInterval{20};

/// Transfers of one direction; a few in flight, then one for each that ends.
class Flight {
  public:
    void enter(int most) {
        MutexLock const lock(guard_);
        changed_.wait(guard_, [&]() SPILLWAY_REQUIRES(guard_) { return count_ < most; });
        ++count_;
    }
    void leave(Result<void> const& result) {
        MutexLock const lock(guard_);
        if (!result.ok() && outcome_.ok()) {
            outcome_ = result.error();
        }
        --count_;
        changed_.notify_all();
    }
    [[nodiscard]] Result<void> land() {
        MutexLock const lock(guard_);
        changed_.wait(guard_, [this]() SPILLWAY_REQUIRES(guard_) { return count_ == 0; });
        return outcome_;
    }

  private:
    Mutex guard_;
    ConditionVariable changed_;
    int count_ SPILLWAY_GUARDED_BY(guard_) = 0;
    Result<void> outcome_ SPILLWAY_GUARDED_BY(guard_);
};

/// Transfers of blocks of one size.
struct Transfer {
    std::int64_t block_bytes;
    std::function<void(std::size_t block, TierDone done)> start;
};

/// Bytes a second of `transfer`, of blocks in turn until the budget is over, and at least once
/// of each.
Result<double> rate_of(Transfer const& transfer, std::size_t blocks, std::int64_t budget_ns) {
    Flight flight;
    std::int64_t const begin_ns = steady_now_ns();
    std::int64_t moved_bytes = 0;
    for (std::size_t i = 0; i < blocks || steady_now_ns() - begin_ns < budget_ns; ++i) {
        // A block is used again only when all before it have ended: their order is their age.
        if (i > 0 && i % blocks == 0) {
            if (Result<void> const landed = flight.land(); !landed) {
                return landed.error();
            }
        }
        flight.enter(kInFlight);
        transfer.start(i % blocks, [&flight](Result<void> const& result) { flight.leave(result); });
        moved_bytes += transfer.block_bytes;
    }
    if (Result<void> const landed = flight.land(); !landed) {
        return landed.error();
    }
    std::int64_t const took_ns = std::max<std::int64_t>(1, steady_now_ns() - begin_ns);
    return static_cast<double>(moved_bytes) * 1e9 / static_cast<double>(took_ns);
}

/// Both at once, on a thread each; each one's rate.
Result<std::pair<double, double>> rates_of_both(
    Transfer const& one, Transfer const& other, std::size_t blocks, std::int64_t budget_ns
) {
    std::optional<Result<double>> first;
    std::thread beside([&] { first = rate_of(one, blocks, budget_ns); });
    Result<double> const second = rate_of(other, blocks, budget_ns);
    beside.join();
    if (!first->ok() || !second.ok()) {
        return first->ok() ? second.error() : first->error();
    }
    return std::pair{**first, *second};
}

/// Blocks of a tier and the memory that is stored there and comes back.
struct Blocks {
    std::size_t size_bytes;
    std::vector<Reservation> rooms;
    HostMemory memory;

    [[nodiscard]] std::span<std::byte> bytes(std::size_t block) const {
        return memory.bytes().subspan(block * size_bytes, size_bytes);
    }
};

/// In a small tier they are smaller, and take half of it.
Result<Blocks> blocks_of(Tier& tier) {
    std::int64_t size_bytes = kBlockBytes;
    while (size_bytes > kLeastBytes && 4 * kInFlight * size_bytes > tier.capacity_bytes()) {
        size_bytes /= 2;
    }
    Result<HostMemory> memory = map_host_memory(2 * kInFlight * size_bytes);
    if (!memory.ok()) {
        return memory.error();
    }
    std::memset(memory->bytes().data(), 1, memory->bytes().size());
    Blocks blocks{static_cast<std::size_t>(size_bytes), {}, std::move(memory).value()};
    for (int i = 0; i < 2 * kInFlight; ++i) {
        Result<Reservation> room = tier.reserve(size_bytes);
        if (!room.ok()) {
            return room.error();
        }
        blocks.rooms.push_back(std::move(room).value());
    }
    return blocks;
}

Result<std::int64_t> latency_of(Tier& tier, std::span<std::byte> memory) {
    Result<Reservation> const room = tier.reserve(kSmallBytes);
    if (!room.ok()) {
        return room.error();
    }
    std::int64_t slowest_ns = 0;
    for (bool const stores : {true, false}) {
        Flight flight;
        flight.enter(1);
        auto const done = [&flight](Result<void> const& result) { flight.leave(result); };
        std::int64_t const begin_ns = steady_now_ns();
        if (stores) {
            tier.store(*room, memory.first(kSmallBytes), done);
        } else {
            tier.load(*room, memory.first(kSmallBytes), done);
        }
        if (Result<void> const landed = flight.land(); !landed) {
            return landed.error();
        }
        slowest_ns = std::max(slowest_ns, steady_now_ns() - begin_ns);
    }
    return slowest_ns;
}

LinkRates rates_from(
    double out, double in, std::pair<double, double> both, std::int64_t latency_ns
) {
    return {out, in, std::min(out, both.first), std::min(in, both.second), latency_ns};
}

}  // namespace

Result<LinkRates> measure_tier(Tier& tier, std::int64_t budget_ns) {
    Result<Blocks> const blocks = blocks_of(tier);
    if (!blocks.ok()) {
        return blocks.error();
    }
    auto const size_bytes = static_cast<std::int64_t>(blocks->size_bytes);
    Transfer const store{
        size_bytes, [&](std::size_t block, TierDone done) {
            tier.store(blocks->rooms[block], blocks->bytes(block), std::move(done));
        }};
    Transfer const load{size_bytes, [&](std::size_t block, TierDone done) {
                            tier.load(blocks->rooms[block], blocks->bytes(block), std::move(done));
                        }};
    // The first half is stored while the second one is loaded.
    Transfer const load_second{size_bytes, [&](std::size_t block, TierDone done) {
                                   load.start(block + kInFlight, std::move(done));
                               }};
    Result<double> const out = rate_of(store, 2 * kInFlight, budget_ns);
    Result<double> const in = out.ok() ? rate_of(load, 2 * kInFlight, budget_ns) : out;
    if (!in.ok()) {
        return in.error();
    }
    auto const both = rates_of_both(store, load_second, kInFlight, budget_ns);
    if (!both.ok()) {
        return both.error();
    }
    Result<std::int64_t> const latency_ns = latency_of(tier, blocks->memory.bytes());
    if (!latency_ns.ok()) {
        return latency_ns.error();
    }
    return rates_from(*out, *in, *both, *latency_ns);
}

namespace {

/// A block of the device and one of pinned memory. Copies out use the first half of both, copies in
/// the second, so that they may run side by side.
class Copies {
  public:
    Copies(Device& device, std::byte* block, std::span<std::byte> memory)
        : device_(device),
          block_(block),
          memory_(memory.data()),
          half_bytes_(std::ssize(memory) / 2) {
        // Who had the block before may still use it.
        StreamEventRef const allocated = device_.record(device_.current_stream());
        device_.wait(device_.copy_out_stream(), allocated);
        device_.wait(device_.copy_in_stream(), allocated);
    }

    /// Bytes a second by the device's own time, of copies out, in, or out beside copies in.
    Result<double> rate(bool out, bool beside_others, std::int64_t budget_ns) {
        StreamId const stream = out ? device_.copy_out_stream() : device_.copy_in_stream();
        std::int64_t moved_bytes = 0;
        StreamEventRef const begin = device_.record(stream);
        std::int64_t const until_ns = steady_now_ns() + budget_ns;
        StreamEventRef end;
        do {
            if (Result<void> const put = copy(out); !put) {
                return put.error();
            }
            if (beside_others) {
                if (Result<void> const put = copy(!out); !put) {
                    return put.error();
                }
            }
            moved_bytes += half_bytes_;
            end = device_.record(stream);
            wait_for(end);
        } while (steady_now_ns() < until_ns);
        // Ten terabytes a second: a device in software may not count time.
        std::int64_t const took_ns =
            std::max(1 + moved_bytes / 10'000, device_.elapsed_ns(begin, end));
        return static_cast<double>(moved_bytes) * 1e9 / static_cast<double>(took_ns);
    }

    void finish() {
        wait_for(device_.record(device_.copy_out_stream()));
        wait_for(device_.record(device_.copy_in_stream()));
    }

  private:
    Result<void> copy(bool out) {
        return out ? device_.copy(memory_, block_, half_bytes_, device_.copy_out_stream())
                   : device_.copy(
                         block_ + half_bytes_,
                         memory_ + half_bytes_,
                         half_bytes_,
                         device_.copy_in_stream()
                     );
    }
    void wait_for(StreamEventRef const& event) {
        while (!device_.passed(event)) {
            std::this_thread::sleep_for(kPollInterval);
        }
    }

    Device& device_;
    std::byte* const block_;
    std::byte* const memory_;
    std::int64_t const half_bytes_;
};

Result<LinkRates> rates_of_copies(Copies& copies, std::int64_t budget_ns) {
    Result<double> const out = copies.rate(true, false, budget_ns);
    Result<double> const in = out.ok() ? copies.rate(false, false, budget_ns) : out;
    Result<double> const both_out = in.ok() ? copies.rate(true, true, budget_ns) : in;
    Result<double> const both_in = both_out.ok() ? copies.rate(false, true, budget_ns) : both_out;
    if (!both_in.ok()) {
        return both_in.error();
    }
    return rates_from(*out, *in, {*both_out, *both_in}, 0);
}

Result<LinkRates> measure_copies_of(
    Device& device, Tier& tier, void* block, std::int64_t size_bytes, std::int64_t budget_ns
) {
    Result<Reservation> const room = tier.reserve(size_bytes);
    if (!room.ok()) {
        return room.error();
    }
    std::span<std::byte> const memory = tier.memory(*room);
    if (memory.empty()) {
        return Error{Errc::unsupported, tier.name() + " lends no memory", "probe"};
    }
    Copies copies(device, static_cast<std::byte*>(block), memory.first(size_bytes));
    Result<LinkRates> rates = rates_of_copies(copies, budget_ns);
    copies.finish();
    return rates;
}

}  // namespace

Result<LinkRates> measure_copies(Device& device, Tier& tier, std::int64_t budget_ns) {
    if (device.is_host()) {
        return Error{Errc::unsupported, "the device is the host: nothing is copied", "probe"};
    }
    void* block = nullptr;
    std::int64_t size_bytes = 2 * kBlockBytes;
    while (block == nullptr && size_bytes >= kLeastBytes) {
        if (size_bytes <= tier.capacity_bytes()) {
            block = device.try_allocate(size_bytes, device.current_stream());
        }
        size_bytes = block == nullptr ? size_bytes / 2 : size_bytes;
    }
    if (block == nullptr) {
        return Error{Errc::out_of_memory, "no room for 64 KiB on the device", "probe"};
    }
    Result<LinkRates> rates = measure_copies_of(device, tier, block, size_bytes, budget_ns);
    device.free(block);
    return rates;
}

Result<double> measure_host_memory(std::int64_t budget_ns) {
    Result<HostMemory> memory = map_host_memory(2 * kCopiedBytes);
    if (!memory.ok()) {
        return memory.error();
    }
    std::span<std::byte> const bytes = memory->bytes();
    std::memset(bytes.data(), 1, bytes.size());  // has the system give its pages
    std::int64_t best_ns = std::numeric_limits<std::int64_t>::max();
    std::int64_t const begin_ns = steady_now_ns();
    for (std::int64_t now_ns = begin_ns; now_ns - begin_ns <= budget_ns;) {
        std::memcpy(bytes.data(), bytes.data() + kCopiedBytes, kCopiedBytes);
        std::int64_t const end_ns = steady_now_ns();
        best_ns = std::min(best_ns, std::max<std::int64_t>(1, end_ns - now_ns));
        now_ns = end_ns;
    }
    return 2.0 * kCopiedBytes * 1e9 / static_cast<double>(best_ns);
}

namespace {

/// Nanoseconds of a run of `work`, on average over as many as begin before `is_over`; at least one.
double average_ns(std::function<void()> const& work, std::function<bool()> const& is_over) {
    std::int64_t const begin_ns = steady_now_ns();
    std::int64_t runs = 0;
    do {
        work();
        ++runs;
    } while (!is_over());
    std::int64_t const took_ns = std::max<std::int64_t>(1, steady_now_ns() - begin_ns);
    return static_cast<double>(took_ns) / static_cast<double>(runs);
}

/// The same while `move` runs once, on a thread of its own.
Result<double> average_beside_ns(
    std::function<void()> const& work, std::function<Result<LinkRates>()> const& move
) {
    std::optional<Result<LinkRates>> moved;
    std::atomic<bool> ended = false;
    double average = 0;
    {
        std::jthread const mover([&] {
            moved = move();
            ended = true;
        });
        average = average_ns(work, [&] { return ended.load(); });
    }
    if (!moved->ok()) {
        return moved->error();
    }
    return average;
}

}  // namespace

Result<double> measure_interference(
    Device& device, Tier& tier, std::function<void()> const& work, std::int64_t budget_ns
) {
    auto const move = [&] {
        device.enter_thread();
        return device.is_host() ? measure_tier(tier, budget_ns)
                                : measure_copies(device, tier, budget_ns);
    };
    std::array<double, kTurns> shares{};
    for (double& share : shares) {
        std::int64_t const until_ns = steady_now_ns() + 3 * budget_ns;
        double const alone_ns = average_ns(work, [&] { return steady_now_ns() >= until_ns; });
        Result<double> const beside_ns = average_beside_ns(work, move);
        if (!beside_ns.ok()) {
            return beside_ns.error();
        }
        share = 1 - alone_ns / *beside_ns;
    }
    std::ranges::nth_element(shares, shares.begin() + kTurns / 2);
    return std::clamp(shares[kTurns / 2], 0.0, kMostInterference);
}

void add_links(Machine& machine, Pool pool, LinkRates const& rates) {
    machine.links.push_back({Pool::device, pool, rates.out, rates.both_out, rates.latency_ns, ""});
    machine.links.push_back({pool, Pool::device, rates.in, rates.both_in, rates.latency_ns, ""});
}

}  // namespace spillway
