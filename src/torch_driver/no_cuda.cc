// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for cuda_*.cc in a build against a torch without CUDA.
#include "torch_driver/cuda_allocator.h"

namespace spillway {

namespace {

Error no_cuda() {
    return {
        Errc::unsupported,
        "this build has no CUDA; build Spillway against a torch that has",
        "cuda"};
}

}  // namespace

bool cuda_is_built() {
    return false;
}

int cuda_device_count() noexcept {
    return 0;
}

Result<void> load_cuda_kernels() {
    return no_cuda();
}

void install_cuda_allocator(AllocateThrough) {}

Result<void> limit_cuda_pool(c10::DeviceIndex, std::int64_t) {
    return no_cuda();
}

}  // namespace spillway
