// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The blocks of all devices and of pinned host memory: their bytes between two walls, what they
// count for, and the quarantine that keeps the addresses of the dead.
#pragma once

#include "late/late.h"
#include "late/scheduler.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace late {

inline constexpr int kPinned = -1;  ///< the "device" of pinned host memory

struct Block {
    std::byte* bytes = nullptr;
    std::size_t size_bytes = 0;  ///< as asked for
    int device = kPinned;
    Actor owner = kHost;         ///< the lane that it is freed on
    std::set<Actor> recorded{};  ///< other lanes that must have passed its free
    bool alive = true;
    int to_pass = 0;  ///< lanes that have not passed its free; the last one poisons
    bool poisoned = false;
    bool stays = false;             ///< something was enqueued that uses it after its free
    std::vector<MarkPtr> passed{};  ///< of these lanes, for who needs the bytes
    Progress returnable{};          ///< when no task can be left that was enqueued before its free

    [[nodiscard]] std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(bytes); }
    [[nodiscard]] std::uintptr_t end() const { return begin() + size_bytes; }
};

/// Thread  not thread-safe: the runtime's mutex guards it
class Memory {
  public:
    /// Forgets peaks and limits. Dead blocks are returned to the system.
    void configure(Options const& options);

    /// A new block, all 0xFF; nullptr where it does not fit under the limit.
    Block* allocate(std::size_t size_bytes, int device, Actor owner);

    /// The block, dead or alive, that has this byte; else nullptr.
    [[nodiscard]] Block* find(void const* byte);

    /// The block is dead, and its bytes are free unless another lane holds them.
    void free(Block& block);
    /// One of the lanes has passed the free.
    void pass(Block& block);
    /// A dead block of the device whose bytes another lane holds.
    [[nodiscard]] Block* held(int device);

    /// Returns the oldest dead blocks to the system while too many bytes wait.
    /// Gives the ranges that may come again.
    std::vector<Block> drain(Scheduler const& scheduler);

    /// What unwritten bytes look like: NaN in every floating type, -1 in integers.
    static void clear(std::byte* bytes, std::size_t size_bytes);

    /// What was written that must not have been, of all blocks.
    [[nodiscard]] std::vector<Damage> damage();

    [[nodiscard]] DeviceStats& counters(int device) { return counters_[device]; }
    void limit(int device, std::int64_t limit_bytes) { limits_[device] = limit_bytes; }

  private:
    void give_back(Block const& block);
    void examine(Block const& block);

    std::map<std::uintptr_t, std::unique_ptr<Block>> blocks_;
    std::deque<Block*> dead_;
    std::int64_t dead_bytes_ = 0;
    std::int64_t quarantine_bytes_ = 0;
    std::map<int, DeviceStats> counters_;
    std::map<int, std::int64_t> limits_;
    std::vector<Damage> damage_;  ///< of blocks that are no more
};

}  // namespace late
