// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The reference is `pattern_byte`, on the host in smoke_test.cc.

#include "cuda_device/cuda_error.h"
#include "cuda_device/smoke.h"

#include <algorithm>

namespace spillway {

namespace {

constexpr int kThreads = 256;
constexpr std::int64_t kMaxBlocks = 4096;  // a thread goes on with the next stride after that

__global__ void xor_with_pattern_kernel(
    std::uint8_t* bytes, std::int64_t size_bytes, std::uint64_t seed
) {
    std::int64_t const stride = std::int64_t{gridDim.x} * blockDim.x;
    std::int64_t const first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
    for (std::int64_t at = first; at < size_bytes; at += stride) {
        bytes[at] ^= pattern_byte(seed, at);
    }
}

}  // namespace

bool kernels_are_built() {
    return true;
}

Result<void> xor_with_pattern(
    std::uint8_t* device_bytes, std::int64_t size_bytes, std::uint64_t seed, cudaStream_t stream
) {
    if (size_bytes <= 0) {
        return {};
    }
    std::int64_t const blocks = std::min((size_bytes + kThreads - 1) / kThreads, kMaxBlocks);
    xor_with_pattern_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(
        device_bytes, size_bytes, seed
    );
    return checked(::cudaPeekAtLastError(), "starting a kernel", "xor_with_pattern");
}

}  // namespace spillway
