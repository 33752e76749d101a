// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The smallest kernel that can fail: it shows whether code that was compiled here runs on the GPU
// that is present, before anything else is blamed.
#pragma once

#include "base/result.h"

#include <cuda_runtime_api.h>

#include <cstdint>

namespace spillway {

/// Whether an nvcc compiled the kernels of this build.
[[nodiscard]] bool kernels_are_built();

/// Byte `at` of the pattern of `seed`.
[[nodiscard]] constexpr std::uint8_t pattern_byte(std::uint64_t seed, std::int64_t at) {
    std::uint64_t const mixed =
        (seed ^ static_cast<std::uint64_t>(at)) * std::uint64_t{0x9E3779B97F4A7C15};
    return static_cast<std::uint8_t>(mixed >> 56U);
}

/// Xors `size_bytes` bytes of device memory with the pattern of `seed`; twice is as before.
///
/// Order   enqueued on `stream`, which must pass before `device_bytes` dies
/// Fails   Errc::unsupported: no kernel in this build, or none for this GPU; Errc::io
[[nodiscard]] Result<void> xor_with_pattern(
    std::uint8_t* device_bytes, std::int64_t size_bytes, std::uint64_t seed, cudaStream_t stream
);

}  // namespace spillway
