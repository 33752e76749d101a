// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "cuda_device/host_registration.h"

#include "base/units.h"
#include "cuda_device/cuda_error.h"
#include "cuda_device/cuda_test_support.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

namespace spillway {
namespace {

TEST(CudaErrorTest, success_is_no_error) {
    EXPECT_TRUE(checked(cudaSuccess, "anything", "here").ok());
}

TEST(CudaErrorTest, the_error_has_cudas_words_and_what_to_do) {
    Result<void> const done = checked(cudaErrorMemoryAllocation, "locking 1 GiB", "host memory");
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, Errc::out_of_memory);
    EXPECT_EQ(
        done.error().message(),
        "host memory: locking 1 GiB: out of memory (cudaErrorMemoryAllocation); ask for less"
    );
}

TEST(CudaErrorTest, cuda_forgets_an_error_that_was_told) {
    SPILLWAY_NEEDS_GPU();
    Result<void> const done = checked(::cudaSetDevice(100'000), "choosing a GPU", "");
    ASSERT_FALSE(done.ok());
    EXPECT_EQ(done.error().code, Errc::bad_argument);
    EXPECT_EQ(::cudaPeekAtLastError(), cudaSuccess);
}

TEST(HostRegistrationTest, without_a_gpu_it_says_so_and_the_memory_stays_pageable) {
    if (no_gpu().empty()) {
        GTEST_SKIP() << "there is a GPU";
    }
    Result<HostMemory> memory = map_host_memory(1_MiB);
    ASSERT_TRUE(memory.ok());
    Result<void> const locked = lock_host_memory(*memory);
    ASSERT_FALSE(locked.ok());
    EXPECT_EQ(locked.error().code, Errc::unsupported);
    std::string const message = locked.error().message();
    EXPECT_EQ(message.find("host memory: locking 1.0 MiB: "), 0U) << message;
    EXPECT_NE(message.find("; it needs an NVIDIA GPU and its driver"), std::string::npos)
        << message;
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_EQ(memory->locked_bytes(), 0);
    memory->bytes().front() = std::byte{1};
}

bool system_has_huge_pages() {
    std::ifstream enabled("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string const modes(std::istreambuf_iterator<char>(enabled), {});
    return modes.find("[always]") != std::string::npos ||
           modes.find("[madvise]") != std::string::npos;
}

TEST(HostRegistrationTest, one_touch_fills_a_huge_page_of_what_was_to_be_locked) {
    if (!system_has_huge_pages()) {
        GTEST_SKIP() << "transparent huge pages are off on this machine";
    }
    constexpr std::uintptr_t kHuge = 2_MiB;
    constexpr std::size_t kPages = kHuge / 4096;
    Result<HostMemory> memory = map_host_memory(2 * kHuge);  // has a whole one
    ASSERT_TRUE(memory.ok());
    (void)lock_host_memory(*memory);  // without a GPU it stays pageable
    auto const begin = reinterpret_cast<std::uintptr_t>(memory->bytes().data());
    std::byte* const granule =
        memory->bytes().data() + ((begin + kHuge - 1) / kHuge * kHuge - begin);
    *granule = std::byte{1};
    std::array<unsigned char, kPages> states{};
    ASSERT_EQ(::mincore(granule, kHuge, states.data()), 0);
    EXPECT_EQ(
        std::count_if(
            states.begin(), states.end(), [](unsigned char state) { return (state & 1U) != 0; }
        ),
        std::ssize(states)
    );
}

TEST(HostRegistrationTest, nothing_and_what_is_locked_already_are_refused) {
    HostMemory none;
    ASSERT_FALSE(lock_host_memory(none).ok());
    EXPECT_EQ(lock_host_memory(none).error().code, Errc::bad_argument);
    Result<HostMemory> memory = map_host_memory(4096);
    ASSERT_TRUE(memory.ok());
    memory->set_locked(4096, [](std::span<std::byte>) {});
    EXPECT_EQ(lock_host_memory(*memory).error().code, Errc::bad_argument);
}

TEST(HostRegistrationTest, a_gpu_copies_to_and_from_locked_memory) {
    SPILLWAY_NEEDS_GPU();
    Result<HostMemory> memory = map_host_memory(2_MiB);
    ASSERT_TRUE(memory.ok());
    Result<void> const locked = lock_host_memory(*memory);
    ASSERT_TRUE(locked.ok()) << locked.error().message();
    EXPECT_EQ(memory->locked_bytes(), 2_MiB);
    std::span<std::byte> const bytes = memory->bytes();
    cudaPointerAttributes attributes{};
    ASSERT_EQ(::cudaPointerGetAttributes(&attributes, bytes.data() + 1_MiB), cudaSuccess);
    EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
    void* device = nullptr;
    ASSERT_EQ(::cudaMalloc(&device, bytes.size()), cudaSuccess);
    std::fill(bytes.begin(), bytes.end(), std::byte{42});
    EXPECT_EQ(
        ::cudaMemcpyAsync(device, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), cudaSuccess
    );
    EXPECT_EQ(::cudaStreamSynchronize(nullptr), cudaSuccess);
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
    EXPECT_EQ(
        ::cudaMemcpyAsync(bytes.data(), device, bytes.size(), cudaMemcpyDeviceToHost), cudaSuccess
    );
    EXPECT_EQ(::cudaStreamSynchronize(nullptr), cudaSuccess);
    EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{42}), std::ssize(bytes));
    EXPECT_EQ(::cudaFree(device), cudaSuccess);
    std::byte* const first = bytes.data();
    memory->reset();
    EXPECT_NE(::cudaHostUnregister(first), cudaSuccess) << "it was unlocked already";
    static_cast<void>(::cudaGetLastError());
}

}  // namespace
}  // namespace spillway
