// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for cuda_*.cc in a build against a torch without CUDA.
#include "torch_driver/allocator/cuda_allocator.h"
#include "torch_driver/device/cuda_c10_device.h"

namespace spillway {

namespace {

Error no_cuda() {
    return {
        Errc::unsupported,
        "this build has no CUDA; build Spillway against a torch that has",
        "cuda"};
}

}  // namespace

Result<void> load_cuda_kernels() {
    return no_cuda();
}

c10::DeviceAllocator* install_cuda_allocator(AllocateThrough) {
    return nullptr;
}

Result<std::shared_ptr<C10Device>> open_cuda_device(c10::Device, std::int64_t) {
    return no_cuda();
}

Result<void> limit_cuda_pool(c10::DeviceIndex, std::int64_t) {
    return no_cuda();
}

}  // namespace spillway
