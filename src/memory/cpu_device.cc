// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "memory/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace spillway {

Result<std::shared_ptr<CpuDevice>> CpuDevice::open(ArenaOptions options) {
    Result<std::shared_ptr<Arena>> arena = Arena::open(options);
    if (!arena.ok()) {
        return arena.error();
    }
    return std::make_shared<CpuDevice>(std::move(*arena));
}

void* CpuDevice::try_allocate(std::int64_t size_bytes, StreamId) noexcept {
    return arena_->try_allocate(size_bytes);
}

void CpuDevice::free(void* block) noexcept {
    arena_->free(block);
}

std::int64_t CpuDevice::rounded(std::int64_t size_bytes) const {
    return arena_->rounded(size_bytes);
}

bool CpuDevice::owns(void const* address) const noexcept {
    return arena_->owns(address);
}

std::int64_t CpuDevice::size_of(void const* block) const {
    return arena_->size_of(block);
}

DeviceUsage CpuDevice::usage() const {
    MutexLock const lock(limits_);
    keep_peak();
    ArenaUsage const usage = arena_->usage();
    std::int64_t const others = charged_bytes_ + lent_bytes_;
    std::int64_t const resident_peak = usage.resident_peak_bytes + others;
    return {
        usage.used_bytes + others,
        all_peak_bytes_,
        usage.resident_bytes + others,
        limit_bytes_ > 0 ? std::min(resident_peak, std::max(limit_bytes_, all_peak_bytes_))
                         : resident_peak,
        usage.allocations,
        usage.discarded_bytes};
}

std::int64_t CpuDevice::take_peak() {
    MutexLock const lock(limits_);
    keep_peak();
    return std::exchange(peak_bytes_, 0);
}

/// The arena's peak so far goes with what others had then; called before that changes.
void CpuDevice::keep_peak() const {
    std::int64_t const peak = arena_->take_peak() + charged_bytes_ + lent_bytes_;
    peak_bytes_ = std::max(peak_bytes_, peak);
    all_peak_bytes_ = std::max(all_peak_bytes_, peak);
}

/// What is left to the arena: 0 is no limit. Where nothing is left, a page stays.
std::int64_t CpuDevice::arena_limit_bytes() const {
    constexpr auto kNone = std::numeric_limits<std::int64_t>::max();
    std::int64_t const own = limit_bytes_ > 0 ? limit_bytes_ - charged_bytes_ : kNone;
    std::int64_t const all = bound_bytes_ == kUnbound ? own : std::min(own, bound_bytes_);
    return all == kNone ? 0 : std::max(all - lent_bytes_, kArenaPageBytes);
}

void CpuDevice::charge(std::int64_t outside_bytes) {
    MutexLock const lock(limits_);
    keep_peak();
    charged_bytes_ = outside_bytes;
    arena_->set_limit(arena_limit_bytes());
}

bool CpuDevice::lend(std::int64_t bytes) {
    MutexLock const lock(limits_);
    std::int64_t const limit = arena_limit_bytes();
    if (limit > 0) {
        std::int64_t const left = limit - bytes;
        if (left < kArenaPageBytes || !arena_->try_set_limit(left)) {
            return false;
        }
    }
    keep_peak();
    lent_bytes_ += bytes;
    return true;
}

void CpuDevice::take_back(std::int64_t bytes) {
    MutexLock const lock(limits_);
    keep_peak();
    lent_bytes_ -= bytes;
    arena_->set_limit(arena_limit_bytes());
}

void CpuDevice::bound(std::int64_t bound_bytes) {
    MutexLock const lock(limits_);
    bound_bytes_ = bound_bytes;
    arena_->set_limit(arena_limit_bytes());
}

bool CpuDevice::try_bound(std::int64_t bound_bytes) {
    MutexLock const lock(limits_);
    std::int64_t const before = std::exchange(bound_bytes_, bound_bytes);
    if (!arena_->try_set_limit(arena_limit_bytes())) {
        bound_bytes_ = before;
        return false;
    }
    return true;
}

Result<void> CpuDevice::copy(void* to, void const* from, std::int64_t size_bytes, StreamId) {
    std::memcpy(to, from, static_cast<std::size_t>(size_bytes));
    return {};
}

}  // namespace spillway
