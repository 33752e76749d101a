// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "late/tensors.h"

#include <ATen/core/CachingHostAllocator.h>
#include <c10/core/CachingDeviceAllocator.h>

#include <cstring>

namespace late {

namespace {

void free_block(void* block) {
    Runtime::get().free(block);
}

/// Allocates on the current stream of the current device.
class DeviceAllocator final : public c10::DeviceAllocator {
  public:
    bool initialized() override { return true; }
    void emptyCache(c10::MempoolId_t /*pool*/) override {}
    void recordStream(c10::DataPtr const& block, c10::Stream stream) override {
        if (block.get() != nullptr) {
            Runtime::get().record_use(block.get(), actor_of(stream));
        }
    }
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
        DeviceStats const counted = late::stats().devices.at(static_cast<std::size_t>(device));
        c10::CachingDeviceAllocator::DeviceStats stats;
        // As CUDA's: a block that another stream holds is not allocated, but active.
        stats.allocated_bytes[0].current = counted.used_bytes - counted.held_bytes;
        stats.allocated_bytes[0].peak = counted.peak_bytes;
        for (auto* const bytes : {&stats.reserved_bytes, &stats.active_bytes}) {
            (*bytes)[0].current = counted.used_bytes;
            (*bytes)[0].peak = counted.peak_bytes;
        }
        stats.allocation[0].current = counted.live_blocks;
        return stats;
    }
    void resetAccumulatedStats(c10::DeviceIndex /*device*/) override {}
    void resetPeakStats(c10::DeviceIndex device) override { reset_peak(device); }
    std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
        std::size_t const total = std::size_t{1} << 40U;
        auto const used = static_cast<std::size_t>(
            late::stats().devices.at(static_cast<std::size_t>(device)).used_bytes
        );
        return {total - used, total};
    }

    c10::DataPtr allocate(std::size_t size_bytes) override {
        int const device = thread_state().device;
        void* const block = Runtime::get().allocate(size_bytes, device, current_lane(device));
        c10::Device const place(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(device));
        return {block, block, &free_block, place};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
    void copy_data(void* to, void const* from, std::size_t size_bytes) const override {
        auto const begin = reinterpret_cast<std::uintptr_t>(from);
        auto const end = reinterpret_cast<std::uintptr_t>(to);
        Runtime::get().launch(
            current_lane(thread_state().device),
            "copy_data",
            {{begin, begin + size_bytes, false}, {end, end + size_bytes, true}},
            [=] { std::memcpy(to, from, size_bytes); }
        );
    }
};

class PinnedAllocator final : public at::HostAllocator {
  public:
    c10::DataPtr allocate(std::size_t size_bytes) override {
        void* const block = Runtime::get().allocate(size_bytes, kPinned, kHost);
        return {block, block, &free_block, c10::Device(c10::kCPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override { return &free_block; }
    void copy_data(void* to, void const* from, std::size_t size_bytes) const override {
        std::memcpy(to, from, size_bytes);
    }
    bool record_event(void* ptr, void* /*ctx*/, c10::Stream stream) override {
        if (Runtime::get().device_of(ptr) != kPinned) {
            return false;
        }
        Runtime::get().record_use(ptr, actor_of(stream));
        return true;
    }
    void empty_cache() override {}
    at::HostStats get_stats() override { return {}; }
    void reset_accumulated_stats() override {}
    void reset_peak_stats() override {}
};

}  // namespace

void register_allocators() {
    c10::SetAllocator(c10::kPrivateUse1, new DeviceAllocator);
    at::setHostAllocator(c10::kPrivateUse1, new PinnedAllocator);
}

}  // namespace late
