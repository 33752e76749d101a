// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/device/cuda_c10_device.h"

#include "cuda_device/codec_kernels.h"
#include "cuda_device/cuda_error.h"
#include "cuda_device/host_registration.h"
#include "cuda_device/smoke.h"
#include "torch_driver/allocator/cuda_allocator.h"
#include "torch_driver/allocator/device_allocator.h"
#include "torch_driver/device/coding_device.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace spillway {

namespace {

/// Holds torch's pool of a GPU to a limit, the least of those that live.
class PoolLimit {
  public:
    PoolLimit(c10::Device where, std::int64_t limit_bytes)
        : where_(where), limit_bytes_(limit_bytes) {
        std::lock_guard const lock(guard());
        all().push_back(this);
    }
    PoolLimit(PoolLimit const&) = delete;
    PoolLimit& operator=(PoolLimit const&) = delete;
    ~PoolLimit() {
        {
            std::lock_guard const lock(guard());
            std::erase(all(), this);
        }
        try {
            (void)apply();
        } catch (std::exception const&) {  // the GPU has failed, which torch's next call reports
        }
    }

    /// Fails   as limit_cuda_pool
    [[nodiscard]] Result<void> apply() const {
        std::lock_guard const lock(guard());
        std::int64_t least = 0;
        for (PoolLimit const* const limit : all()) {
            if (limit->where_ == where_ && limit->limit_bytes_ > 0) {
                least = least == 0 ? limit->limit_bytes_ : std::min(least, limit->limit_bytes_);
            }
        }
        return limit_cuda_pool(where_.index(), least);
    }

  private:
    static std::mutex& guard() {
        static auto* const mutex = new std::mutex;  // leaked: graphs may outlive main()
        return *mutex;
    }
    static std::vector<PoolLimit const*>& all() {
        static auto* const limits = new std::vector<PoolLimit const*>;
        return *limits;
    }

    c10::Device const where_;
    std::int64_t const limit_bytes_;
};

class CudaDevice final : public CodingDevice {
  public:
    using CodingDevice::CodingDevice;

    /// Fails   as limit_cuda_pool
    Result<void> limit_pool() {
        auto limit = std::make_shared<PoolLimit>(where(), limit_bytes());
        Result<void> applied = limit->apply();
        pool_limit_ = std::move(limit);
        return applied;
    }
    std::shared_ptr<void> take_pool_limit() override { return std::exchange(pool_limit_, nullptr); }

    /// Exact: what is mapped is what is locked.
    Result<HostMemory> host_memory(std::int64_t size_bytes) override {
        c10::cuda::CUDAGuard const guard(where());
        Result<HostMemory> memory = map_host_memory(size_bytes);
        if (memory.ok()) {
            Result<void> const locked = lock_host_memory(*memory);
            if (!locked.ok()) {
                warn_pageable(size_bytes, locked.error().message());
            }
        }
        return memory;
    }

    Result<void> copy(void* to, void const* from, std::int64_t size_bytes, StreamId on) override {
        try {
            c10::cuda::CUDAGuard const guard(where());  // which a GPU that has failed refuses
            cudaError_t const status = cudaMemcpyAsync(
                to,
                from,
                static_cast<std::size_t>(size_bytes),
                cudaMemcpyDefault,
                c10::cuda::CUDAStream(stream(on)).stream()
            );
            return checked(status, "a copy between device and host", where().str());
        } catch (std::exception const& failure) {
            return refusal(failure);
        }
    }

    [[nodiscard]] bool codes(Codec const& codec) const override {
        return kernels_are_built() && code_bits(codec) > 0;
    }

    Result<void> encode(
        Encoding const& encoding, void const* raw, void* coded, std::uint64_t seed, StreamId on
    ) override {
        DeviceBlock const block{const_cast<void*>(raw), coded};
        return launched(on, [&](void* stream) {
            return encode_on_gpu(encoding, block, seed, static_cast<std::uint64_t*>(coded), stream);
        });
    }

    Result<void> decode(Encoding const& encoding, void const* coded, void* raw, StreamId on)
        override {
        DeviceBlock const block{raw, const_cast<void*>(coded)};
        return launched(on, [&](void* stream) { return decode_on_gpu(encoding, block, stream); });
    }

  private:
    [[nodiscard]] Result<void> launched(
        StreamId on, c10::function_ref<Result<void>(void* stream)> launch
    ) const {
        try {
            c10::cuda::CUDAGuard const guard(where());  // which a GPU that has failed refuses
            return launch(c10::cuda::CUDAStream(stream(on)).stream());
        } catch (std::exception const& failure) {
            return refusal(failure);
        }
    }

    std::shared_ptr<PoolLimit> pool_limit_;
};

}  // namespace

Result<std::shared_ptr<C10Device>> open_cuda_device(c10::Device where, std::int64_t limit_bytes) {
    Result<void> const loaded = load_cuda_kernels();
    if (!loaded.ok()) {
        return loaded.error();
    }
    try {
        at::globalContext().lazyInitDevice(c10::kCUDA);
        if (limit_bytes > 0) {
            prefer_expandable_segments();
        }
        c10::DeviceAllocator& allocator = *install_device_allocator(c10::kCUDA);
        auto device = std::make_shared<CudaDevice>(where, allocator, limit_bytes);
        Result<void> const limited = device->limit_pool();
        if (!limited.ok()) {
            return limited.error();
        }
        return std::shared_ptr<C10Device>(std::move(device));
    } catch (std::exception const& failure) {
        std::string const why = failure.what();
        return Error{Errc::io, why.substr(0, why.find('\n')), where.str()};
    }
}

}  // namespace spillway
