// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/allocator/cuda_allocator.h"

#include "torch_driver/allocator/allocator.h"
#include "torch_driver/allocator/cuda_forwarding.h"
#include "torch_driver/allocator/restored_block.h"

#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string>

namespace spillway {

namespace {

constexpr char const* kKernels = "libtorch_cuda.so";

/// Ours, in front of what was torch's own at the first call; leaked, as blocks outlive main().
RoomMakingCudaAllocator& in_front() {
    static auto* const ours =
        new RoomMakingCudaAllocator(cuda_torch::allocator.load(), &c10::cuda::current_device);
    return *ours;
}

/// The folder of libc10_cuda.so with a slash at its end; empty where that is not known.
std::string torch_library_folder() {
    Dl_info found{};
    auto* const symbol = reinterpret_cast<void*>(&c10::cuda::device_count);
    if (::dladdr(symbol, &found) == 0 || found.dli_fname == nullptr) {
        return "";
    }
    std::string const path = found.dli_fname;
    return path.substr(0, path.find_last_of('/') + 1);
}

}  // namespace

void RoomMakingCudaAllocator::around(
    std::size_t size, std::optional<c10::Stream> stream, c10::function_ref<void*()> allocate
) const {
    AllocateThrough const through = through_.load(std::memory_order_acquire);
    if (through == nullptr || size == 0) {
        allocate();
    } else {
        through(size, c10::Device(c10::kCUDA, current_device_()), stream, allocate);
    }
}

c10::DataPtr RoomMakingCudaAllocator::allocate(std::size_t size) {
    c10::DataPtr block;
    around(size, std::nullopt, [&] {
        block = behind_->allocate(size);
        return block.get();
    });
    return block;
}

void* RoomMakingCudaAllocator::raw_alloc(std::size_t size) {
    void* block = nullptr;
    around(size, std::nullopt, [&] { return block = behind_->raw_alloc(size); });
    return block;
}

void* RoomMakingCudaAllocator::raw_alloc_with_stream(std::size_t size, cudaStream_t stream) {
    void* block = nullptr;
    c10::Stream const on = c10::cuda::getStreamFromExternal(stream, current_device_());
    around(size, on, [&] { return block = behind_->raw_alloc_with_stream(size, stream); });
    return block;
}

void RoomMakingCudaAllocator::recordStream(c10::DataPtr const& data, c10::Stream stream) {
    if (!add_user(data, stream)) {
        behind_->recordStream(data, stream);
    }
}

void RoomMakingCudaAllocator::recordStream(c10::DataPtr const& data, c10::cuda::CUDAStream stream) {
    if (!add_user(data, stream.unwrap())) {
        behind_->recordStream(data, stream);
    }
}

Result<void> limit_pool(
    cuda_torch::CUDAAllocator& allocator, c10::DeviceIndex device, std::int64_t limit_bytes
) {
    std::string const where = "cuda:" + std::to_string(device);
    if (limit_bytes < 0) {
        return Error{
            Errc::bad_argument,
            "a limit of " + std::to_string(limit_bytes) + " bytes is negative",
            where};
    }
    if (!allocator.initialized()) {
        return Error{
            Errc::unsupported,
            "torch has not initialized CUDA; make a tensor on the GPU before its pool is limited",
            where};
    }
    auto const total = static_cast<double>(allocator.getMemoryInfo(device).second);
    // Torch multiplies by the total again and cuts: half a byte more comes out as the limit,
    // exactly.
    double const fraction = (static_cast<double>(limit_bytes) + 0.5) / total;
    // The program's own limit, from before the first of ours.
    static auto* const guard = new std::mutex;
    static auto* const before = new std::map<c10::DeviceIndex, double>;
    std::lock_guard const lock(*guard);
    auto const [own, is_first] = before->try_emplace(device, 1.0);
    if (is_first) {
        own->second = allocator.getMemoryFraction(device);
    }
    double const most = own->second;
    if (limit_bytes == 0) {
        before->erase(own);
    }
    allocator.setMemoryFraction(limit_bytes == 0 ? most : std::min(fraction, most), device);
    return {};
}

Result<void> load_cuda_kernels() {
    std::string const path = torch_library_folder() + kKernels;
    // Torch registers its kernels with themselves when the library is loaded; it is never closed.
    if (::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
        char const* const why = ::dlerror();
        return Error{
            Errc::unsupported,
            std::string("torch's CUDA kernels cannot be loaded: ") +
                (why == nullptr ? "no reason is given" : why) + "; install a torch with CUDA",
            path};
    }
    if (!at::detail::getCUDAHooks().hasCUDART()) {
        return Error{
            Errc::unsupported,
            "torch checked for CUDA before its kernels were loaded, and keeps that answer; load "
            "them "
            "first, or link libtorch_cuda",
            path};
    }
    return {};
}

c10::DeviceAllocator* install_cuda_allocator(AllocateThrough through) {
    RoomMakingCudaAllocator& ours = in_front();
    ours.set_through(through);
    static bool const installed = [&] {
        cuda_torch::allocator.store(&ours);
        c10::SetAllocator(c10::kCUDA, &ours, kAllocatorPriority);
        return true;
    }();
    static_cast<void>(installed);
    return &ours.behind();
}

Result<void> limit_cuda_pool(c10::DeviceIndex device, std::int64_t limit_bytes) {
    return limit_pool(*cuda_torch::get(), device, limit_bytes);
}

void prefer_expandable_segments() {
    if (c10::CachingAllocator::getAllocatorSettings().empty()) {
        c10::CachingAllocator::setAllocatorSettings("expandable_segments:True");
    }
}

}  // namespace spillway
