// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// For tests: whether there is a GPU, and why not.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>

namespace spillway {

/// Why no test can run on a GPU here; empty where one can.
inline std::string no_gpu() {
    int count = 0;
    cudaError_t const status = ::cudaGetDeviceCount(&count);
    if (status != cudaSuccess) {
        static_cast<void>(::cudaGetLastError());
        return std::string("no GPU: ") + ::cudaGetErrorString(status);
    }
    return count > 0 ? "" : "no GPU: CUDA counts none";
}

#define SPILLWAY_NEEDS_GPU()                            \
    if (std::string const why = no_gpu(); !why.empty()) \
    GTEST_SKIP() << why

}  // namespace spillway
