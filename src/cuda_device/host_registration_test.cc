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
#include <span>
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

/// Touches one byte of each 2 MiB; how many of those are whole in memory then.
std::ptrdiff_t huge_pages_in(std::span<std::byte> memory) {
    constexpr std::size_t kHuge = 2_MiB;
    constexpr std::size_t kPages = kHuge / 4096;
    std::size_t const into = reinterpret_cast<std::uintptr_t>(memory.data()) % kHuge;
    std::ptrdiff_t whole = 0;
    for (std::size_t at = (kHuge - into) % kHuge; at + kHuge <= memory.size(); at += kHuge) {
        memory[at] = std::byte{1};
        std::array<unsigned char, kPages> states{};
        bool const is_known = ::mincore(&memory[at], kHuge, states.data()) == 0;
        whole += is_known && std::all_of(states.begin(), states.end(), [](unsigned char state) {
                     return (state & 1U) != 0;
                 });
    }
    return whole;
}

TEST(HostRegistrationTest, what_was_to_be_locked_lies_on_huge_pages) {
    HostMemory advised = map_host_memory(16_MiB).value();
    ::madvise(advised.bytes().data(), advised.bytes().size(), MADV_HUGEPAGE);
    if (huge_pages_in(advised.bytes()) == 0) {
        GTEST_SKIP() << "this machine has no huge page to give now";
    }
    HostMemory memory = map_host_memory(16_MiB).value();
    (void)lock_host_memory(memory);  // without a GPU it stays pageable
    EXPECT_GT(huge_pages_in(memory.bytes()), 0);
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
