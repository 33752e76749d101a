// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What stands in front of torch's CUDA allocator. Every virtual is handed on, also those that are
// not pure: one that is forgotten would silently behave as the base class does, so
// tools/check_forwarding.py compares this file and compat.h with torch's header.
#pragma once

#include "base/result.h"
#include "torch_driver/allocator/cuda_allocator.h"
#include "torch_driver/compat.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

namespace spillway {

namespace cuda_torch = c10::cuda::CUDACachingAllocator;

static_assert(overrides_all_newer<cuda_torch::CUDAAllocator>());

/// Behaves in every way as the allocator behind it.
class ForwardingCudaAllocator : public HandsOnNewerVirtuals<cuda_torch::CUDAAllocator> {
  public:
    using Base = cuda_torch::CUDAAllocator;
    using HandsOnNewerVirtuals::HandsOnNewerVirtuals;

    // c10::Allocator
    c10::DataPtr allocate(std::size_t size) override { return behind_->allocate(size); }
    bool is_simple_data_ptr(c10::DataPtr const& data) const override {
        return behind_->is_simple_data_ptr(data);
    }
    c10::DeleterFnPtr raw_deleter() const override { return behind_->raw_deleter(); }
    void copy_data(void* to, void const* from, std::size_t count) const override {
        behind_->copy_data(to, from, count);
    }

    // c10::DeviceAllocator
    bool initialized() override { return behind_->initialized(); }
    void emptyCache(c10::MempoolId_t pool) override { behind_->emptyCache(pool); }
    void recordStream(c10::DataPtr const& data, c10::Stream stream) override {
        behind_->recordStream(data, stream);
    }
    c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
        return behind_->getDeviceStats(device);
    }
    void resetAccumulatedStats(c10::DeviceIndex device) override {
        behind_->resetAccumulatedStats(device);
    }
    void resetPeakStats(c10::DeviceIndex device) override { behind_->resetPeakStats(device); }
    std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex device) override {
        return behind_->getMemoryInfo(device);
    }

    // CUDAAllocator: memory
    void* raw_alloc(std::size_t size) override { return behind_->raw_alloc(size); }
    void* raw_alloc_with_stream(std::size_t size, cudaStream_t stream) override {
        return behind_->raw_alloc_with_stream(size, stream);
    }
    void raw_delete(void* memory) override { behind_->raw_delete(memory); }
    void init(int device_count) override { behind_->init(device_count); }
    double getMemoryFraction(c10::DeviceIndex device) override {
        return behind_->getMemoryFraction(device);
    }
    void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
        behind_->setMemoryFraction(fraction, device);
    }
    std::vector<cuda_torch::StreamSegmentSize> getExpandableSegmentSizes(c10::DeviceIndex device
    ) override {
        return behind_->getExpandableSegmentSizes(device);
    }
    void enable(bool value) override { behind_->enable(value); }
    bool isEnabled() const override { return behind_->isEnabled(); }
    void cacheInfo(c10::DeviceIndex device, std::size_t* largest) override {
        behind_->cacheInfo(device, largest);
    }
    void* getBaseAllocation(void* memory, std::size_t* size) override {
        return behind_->getBaseAllocation(memory, size);
    }
    void recordStream(c10::DataPtr const& data, c10::cuda::CUDAStream stream) override {
        behind_->recordStream(data, stream);
    }
    cudaError_t memcpyAsync(
        void* to,
        int to_device,
        void const* from,
        int from_device,
        std::size_t count,
        cudaStream_t stream,
        bool peer
    ) override {
        return behind_->memcpyAsync(to, to_device, from, from_device, count, stream, peer);
    }
    void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex other) override {
        behind_->enablePeerAccess(device, other);
    }
    cuda_torch::ShareableHandle shareIpcHandle(void* memory) override {
        return behind_->shareIpcHandle(memory);
    }
    std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
        return behind_->getIpcDevPtr(std::move(handle));
    }
    std::string name() override { return behind_->name(); }

    // CUDAAllocator: pools and graphs
    void beginAllocateToPool(
        c10::DeviceIndex device, c10::MempoolId_t pool, std::function<bool(cudaStream_t)> filter
    ) override {
        behind_->beginAllocateToPool(device, pool, std::move(filter));
    }
    void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
        behind_->endAllocateToPool(device, pool);
    }
    void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
        behind_->releasePool(device, pool);
    }
    int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) override {
        return behind_->getPoolUseCount(device, pool);
    }
    void createOrIncrefPool(
        c10::DeviceIndex device, c10::MempoolId_t pool, std::shared_ptr<Base> allocator
    ) override {
        behind_->createOrIncrefPool(device, pool, std::move(allocator));
    }
    void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool, bool use) override {
        behind_->setUseOnOOM(device, pool, use);
    }
    void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t pool) override {
        behind_->setNoSplit(device, pool);
    }
    bool checkPoolLiveAllocations(
        c10::DeviceIndex device, c10::MempoolId_t pool, std::unordered_set<void*> const& live
    ) override {
        return behind_->checkPoolLiveAllocations(device, pool, live);
    }
    std::shared_ptr<cuda_torch::AllocatorState> getCheckpointState(
        c10::DeviceIndex device, c10::MempoolId_t pool
    ) override {
        return behind_->getCheckpointState(device, pool);
    }
    cuda_torch::CheckpointDelta setCheckpointPoolState(
        c10::DeviceIndex device, std::shared_ptr<cuda_torch::AllocatorState> state
    ) override {
        return behind_->setCheckpointPoolState(device, std::move(state));
    }

    // CUDAAllocator: snapshots, history and observers
    cuda_torch::SnapshotInfo snapshot(c10::MempoolId_t pool, bool traces) override {
        return behind_->snapshot(pool, traces);
    }
    bool isHistoryEnabled() override { return behind_->isHistoryEnabled(); }
    void recordHistory(
        bool enabled,
        cuda_torch::CreateContextFn context,
        std::size_t max_entries,
        cuda_torch::RecordContext when,
        bool clear,
        std::vector<std::string> const& skipped
    ) override {
        behind_->recordHistory(enabled, context, max_entries, when, clear, skipped);
    }
    void recordAnnotation(std::vector<std::pair<std::string, std::string>> const& pairs) override {
        behind_->recordAnnotation(pairs);
    }
    void pushCompileContext(std::string& context) override { behind_->pushCompileContext(context); }
    void popCompileContext() override { behind_->popCompileContext(); }
    void setUserMetadata(std::string const& metadata) override {
        behind_->setUserMetadata(metadata);
    }
    std::string getUserMetadata() override { return behind_->getUserMetadata(); }
    void attachOutOfMemoryObserver(cuda_torch::OutOfMemoryObserver observer) override {
        behind_->attachOutOfMemoryObserver(std::move(observer));
    }
    void attachAllocatorTraceTracker(cuda_torch::AllocatorTraceTracker tracker) override {
        behind_->attachAllocatorTraceTracker(std::move(tracker));
    }
};

/// Lets `through` run around each allocation, and knows the blocks that came back.
class RoomMakingCudaAllocator final : public ForwardingCudaAllocator {
  public:
    /// `current_device` returns the device of the calling thread, where allocations go.
    RoomMakingCudaAllocator(Base* behind, c10::DeviceIndex (*current_device)())
        : ForwardingCudaAllocator(behind), current_device_(current_device) {}

    void set_through(AllocateThrough through) { through_ = through; }
    [[nodiscard]] Base& behind() const { return *behind_; }

    c10::DataPtr allocate(std::size_t size) override;
    void* raw_alloc(std::size_t size) override;
    void* raw_alloc_with_stream(std::size_t size, cudaStream_t stream) override;
    /// Of a block that came back, its end waits for the stream.
    void recordStream(c10::DataPtr const& data, c10::Stream stream) override;
    void recordStream(c10::DataPtr const& data, c10::cuda::CUDAStream stream) override;

  private:
    void around(
        std::size_t size, std::optional<c10::Stream> stream, c10::function_ref<void*()> allocate
    ) const;

    c10::DeviceIndex (*current_device_)();
    std::atomic<AllocateThrough> through_ = nullptr;
};

/// See limit_cuda_pool.
[[nodiscard]] Result<void> limit_pool(
    cuda_torch::CUDAAllocator& allocator, c10::DeviceIndex device, std::int64_t limit_bytes
);

}  // namespace spillway
