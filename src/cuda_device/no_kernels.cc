// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Stands in for the .cu files of this folder where no nvcc could compile them.
#include "cuda_device/smoke.h"

namespace spillway {

bool kernels_are_built() {
    return false;
}

Result<void> xor_with_pattern(std::uint8_t*, std::int64_t, std::uint64_t, cudaStream_t) {
    return Error{
        Errc::unsupported,
        "this build has no kernels of its own; build it again where nvcc is",
        "xor_with_pattern"};
}

}  // namespace spillway
