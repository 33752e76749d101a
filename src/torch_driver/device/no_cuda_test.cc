// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Only in a build against a torch without CUDA.
#include "torch_driver/allocator/cuda_allocator.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

TEST(NoCudaTest, a_build_without_cuda_says_so_in_one_line) {
    install_cuda_allocator(nullptr);
    for (Result<void> const& refused : {load_cuda_kernels(), limit_cuda_pool(0, 4096)}) {
        ASSERT_FALSE(refused.ok());
        EXPECT_EQ(refused.error().code, Errc::unsupported);
        EXPECT_EQ(
            refused.error().message(),
            "cuda: this build has no CUDA; build Spillway against a torch that has"
        );
    }
}

}  // namespace
}  // namespace spillway
