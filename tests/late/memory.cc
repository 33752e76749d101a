// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "late/memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <utility>

namespace late {

namespace {

constexpr std::size_t kWall = 64;       // bytes before and at least after each block
constexpr std::size_t kRounding = 512;  // as CUDA's allocator
constexpr std::byte kWallByte{0xA5};
constexpr std::byte kNothing{0xFF};

std::size_t total_bytes(std::size_t size_bytes) {
    return static_cast<std::size_t>(rounded(static_cast<std::int64_t>(size_bytes))) + 2 * kWall;
}

/// Where the first byte of [from, to) is that is not `byte`; `to` if there is none.
std::byte const* other_than(std::byte const* from, std::byte const* to, std::byte byte) {
    auto const count = static_cast<std::size_t>(to - from);
    if (count > 0 && *from == byte && std::memcmp(from, from + 1, count - 1) == 0) {
        return to;  // the common case, at full speed
    }
    return std::find_if(from, to, [byte](std::byte b) { return b != byte; });
}

}  // namespace

std::int64_t rounded(std::int64_t size_bytes) {
    std::int64_t const unit = kRounding;
    return (size_bytes + unit - 1) / unit * unit;
}

void Memory::configure(Options const& options) {
    for (Block* const block : dead_) {
        give_back(*block);
        blocks_.erase(block->begin());
    }
    dead_.clear();
    dead_bytes_ = 0;
    quarantine_bytes_ = options.quarantine_bytes;
    limits_.clear();
    for (auto& [device, counters] : counters_) {
        counters.peak_bytes = counters.used_bytes;
    }
    damage_.clear();
}

Block* Memory::allocate(std::size_t size_bytes, int device, Actor owner) {
    DeviceStats& counters = counters_[device];
    std::int64_t const counted = rounded(static_cast<std::int64_t>(size_bytes));
    std::int64_t const limit = limits_[device];
    if (limit != 0 && counters.used_bytes + counted > limit) {
        return nullptr;
    }
    std::size_t const total = total_bytes(size_bytes);
    auto* const raw = static_cast<std::byte*>(std::aligned_alloc(kWall, total));
    TORCH_CHECK(raw != nullptr, "late: the system has no ", total, " bytes");
    std::memset(raw, static_cast<int>(kWallByte), total);
    clear(raw + kWall, size_bytes);
    auto block = std::make_unique<Block>(Block{
        .bytes = raw + kWall, .size_bytes = size_bytes, .device = device, .owner = owner});
    counters.used_bytes += counted;
    counters.peak_bytes = std::max(counters.peak_bytes, counters.used_bytes);
    ++counters.live_blocks;
    return (blocks_[block->begin()] = std::move(block)).get();
}

void Memory::clear(std::byte* bytes, std::size_t size_bytes) {
    std::memset(bytes, static_cast<int>(kNothing), size_bytes);
}

Block* Memory::find(void const* byte) {
    auto const address = reinterpret_cast<std::uintptr_t>(byte);
    auto const next = blocks_.upper_bound(address);
    if (next == blocks_.begin()) {
        return nullptr;
    }
    Block* const block = std::prev(next)->second.get();
    return address < block->end() ? block : nullptr;
}

void Memory::free(Block& block) {
    block.alive = false;
    --counters_[block.device].live_blocks;
    std::int64_t const counted = rounded(static_cast<std::int64_t>(block.size_bytes));
    if (block.recorded.empty()) {
        counters_[block.device].used_bytes -= counted;
    } else {
        counters_[block.device].held_bytes += counted;
    }
    dead_.push_back(&block);
    dead_bytes_ += static_cast<std::int64_t>(total_bytes(block.size_bytes));
}

void Memory::pass(Block& block) {
    if (--block.to_pass > 0) {
        return;
    }
    clear(block.bytes, block.size_bytes);
    block.poisoned = true;
    if (!block.recorded.empty()) {
        std::int64_t const counted = rounded(static_cast<std::int64_t>(block.size_bytes));
        counters_[block.device].used_bytes -= counted;
        counters_[block.device].held_bytes -= counted;
    }
}

Block* Memory::held(int device) {
    auto const found = std::find_if(dead_.begin(), dead_.end(), [device](Block const* block) {
        return block->device == device && !block->poisoned && !block->recorded.empty();
    });
    return found == dead_.end() ? nullptr : *found;
}

std::vector<Block> Memory::drain(Scheduler const& scheduler) {
    std::vector<Block> returned;
    while (dead_bytes_ > quarantine_bytes_ && !dead_.empty()) {
        Block* const block = dead_.front();
        if (!block->poisoned || block->stays || !scheduler.reached(block->returnable)) {
            break;
        }
        dead_.pop_front();
        dead_bytes_ -= static_cast<std::int64_t>(total_bytes(block->size_bytes));
        give_back(*block);
        returned.push_back(*block);
        blocks_.erase(block->begin());
    }
    return returned;
}

void Memory::give_back(Block const& block) {
    examine(block);
    std::free(block.bytes - kWall);
}

void Memory::examine(Block const& block) {
    auto const found = [&](std::byte const* at, Damage::Kind kind) {
        damage_.push_back(
            {.block = block.begin(),
             .size_bytes = static_cast<std::int64_t>(block.size_bytes),
             .offset_bytes = at - block.bytes,
             .kind = kind}
        );
    };
    std::byte const* const last = block.bytes + block.size_bytes;
    std::byte const* const wall = block.bytes - kWall;
    std::byte const* const end = wall + total_bytes(block.size_bytes);
    if (auto const* at = other_than(wall, block.bytes, kWallByte); at != block.bytes) {
        found(at, Damage::Kind::before_begin);
    }
    if (auto const* at = other_than(last, end, kWallByte); at != end) {
        found(at, Damage::Kind::past_end);
    }
    if (block.poisoned) {
        if (auto const* at = other_than(block.bytes, last, kNothing); at != last) {
            found(at, Damage::Kind::after_free);
        }
    }
}

std::vector<Damage> Memory::damage() {
    std::vector<Damage> const returned = damage_;
    for (auto const& [begin, block] : blocks_) {
        examine(*block);
    }
    return std::exchange(damage_, returned);
}

}  // namespace late
