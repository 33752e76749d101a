// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/ambient.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace spillway {
namespace {

/// All that can be set, other than it is.
Ambient other_than(Ambient const& now) {
    Ambient other;
    other.threads = now.threads + 1;
    other.default_dtype = now.default_dtype == c10::kDouble ? c10::kFloat : c10::kDouble;
#if defined(__x86_64__)
    other.denormals = ~now.denormals & 0x8040;
#endif
    other.is_deterministic = !now.is_deterministic;
    other.only_warns = other.is_deterministic;
    other.has_mkldnn = !now.has_mkldnn;
    other.has_cudnn = !now.has_cudnn;
    other.is_cudnn_deterministic = !now.is_cudnn_deterministic;
    other.benchmarks_cudnn = !now.benchmarks_cudnn;
    return other;
}

TEST(AmbientTest, all_of_it_is_set_and_set_back) {
    Ambient const before = Ambient::now();
    Ambient const wanted = other_than(before);
    {
        WithAmbient const with(wanted);
        EXPECT_EQ(Ambient::now().threads, wanted.threads);
        EXPECT_EQ(Ambient::now().default_dtype, wanted.default_dtype);
        EXPECT_EQ(Ambient::now().denormals, wanted.denormals);
        EXPECT_EQ(Ambient::now(), wanted);
    }
    EXPECT_EQ(Ambient::now(), before);
}

TEST(AmbientTest, a_threads_own_settings_are_no_process) {
    Ambient const now = Ambient::now();
    Ambient other = now;
    other.threads += 1;
    other.denormals ^= 0x8000;
    EXPECT_TRUE(now.is_same_process(other));
    other.is_deterministic = !other.is_deterministic;
    EXPECT_FALSE(now.is_same_process(other));
}

TEST(AmbientTest, one_thread_at_a_time_changes_the_process) {
    constexpr int kThreads = 4;
    constexpr int kRounds = 200;
    Ambient const before = Ambient::now();
    std::atomic<int> others = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([i, &before, &others] {
            Ambient wanted = before;
            wanted.default_dtype = i % 2 == 0 ? c10::kFloat : c10::kDouble;
            wanted.has_cudnn = i % 4 < 2;
            for (int round = 0; round < kRounds; ++round) {
                WithAmbient const with(wanted);
                std::this_thread::yield();
                others += Ambient::now().is_same_process(wanted) ? 0 : 1;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(others, 0);
    EXPECT_EQ(Ambient::now(), before);
}

}  // namespace
}  // namespace spillway
