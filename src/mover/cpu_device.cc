// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/cpu_device.h"

#include <algorithm>
#include <cstring>

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
    ArenaUsage const usage = arena_->usage();
    std::int64_t const charged = charged_bytes_;
    return {
        usage.used_bytes + charged,
        usage.peak_bytes + charged,
        usage.resident_bytes + charged,
        usage.resident_peak_bytes + charged,
        usage.allocations};
}

std::int64_t CpuDevice::take_peak() {
    return arena_->take_peak() + charged_bytes_;
}

// Where nothing is left, a page stays: an arena has no limit of 0.
void CpuDevice::charge(std::int64_t outside_bytes) {
    charged_bytes_ = outside_bytes;
    if (limit_bytes_ > 0) {
        arena_->set_limit(std::max(limit_bytes_ - outside_bytes, kArenaPageBytes));
    }
}

Result<void> CpuDevice::copy(void* to, void const* from, std::int64_t size_bytes, StreamId) {
    std::memcpy(to, from, static_cast<std::size_t>(size_bytes));
    return {};
}

}  // namespace spillway
