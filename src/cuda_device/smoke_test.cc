// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda_device/smoke.h"

#include "cuda_device/cuda_test_support.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace spillway {
namespace {

TEST(SmokeTest, the_pattern_differs_by_seed_and_place) {
    int same = 0;
    for (std::int64_t at = 0; at < 1000; ++at) {
        same += pattern_byte(1, at) == pattern_byte(2, at) ? 1 : 0;
        same += pattern_byte(1, at) == pattern_byte(1, at + 1) ? 1 : 0;
    }
    EXPECT_LT(same, 100);
}

TEST(SmokeTest, without_a_gpu_or_kernels_it_says_so_in_one_line) {
    if (kernels_are_built() && no_gpu().empty()) {
        GTEST_SKIP() << "there are a GPU and kernels";
    }
    std::uint8_t byte = 7;
    Result<void> const done = xor_with_pattern(&byte, 1, 1, nullptr);
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, Errc::unsupported) << done.error().message();
    EXPECT_EQ(done.error().message().find('\n'), std::string::npos);
    EXPECT_EQ(byte, 7);
}

TEST(SmokeTest, a_kernel_that_was_compiled_here_runs_on_this_gpu) {
    SPILLWAY_NEEDS_GPU();
    if (!kernels_are_built()) {
        GTEST_SKIP() << "no nvcc compiled the kernels";
    }
    for (std::int64_t const size : {1, 255, 256, 257, 3'000'001}) {
        auto const count = static_cast<std::size_t>(size);
        std::vector<std::uint8_t> bytes(count, 0x5A);
        void* memory = nullptr;
        ASSERT_EQ(::cudaMalloc(&memory, count + 1), cudaSuccess);
        auto* const device = static_cast<std::uint8_t*>(memory);
        ASSERT_EQ(::cudaMemset(device, 0x5A, count + 1), cudaSuccess);
        Result<void> const done = xor_with_pattern(device, size, 9, nullptr);
        ASSERT_TRUE(done.ok()) << done.error().message();
        std::uint8_t after = 0;
        ASSERT_EQ(::cudaMemcpy(bytes.data(), device, count, cudaMemcpyDeviceToHost), cudaSuccess);
        ASSERT_EQ(::cudaMemcpy(&after, device + size, 1, cudaMemcpyDeviceToHost), cudaSuccess);
        ASSERT_EQ(::cudaFree(device), cudaSuccess);
        EXPECT_EQ(after, 0x5A) << "written past the end";
        for (std::int64_t at = 0; at < size; ++at) {
            ASSERT_EQ(bytes[static_cast<std::size_t>(at)], 0x5A ^ pattern_byte(9, at)) << at;
        }
    }
}

}  // namespace
}  // namespace spillway
