// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/log.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace spillway {
namespace {

TEST(LogTest, a_line_goes_to_stderr_with_our_name) {
    testing::internal::CaptureStderr();
    log_line("hello");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "spillway: hello\n");
}

TEST(LogTest, a_line_said_once_is_not_said_again) {
    testing::internal::CaptureStderr();
    log_once("only once");
    log_once("only once");
    log_once("another");
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "spillway: only once\nspillway: another\n");
}

TEST(LogTest, lines_of_several_threads_are_not_torn) {
    constexpr int kThreads = 4;
    constexpr int kLines = 50;
    testing::internal::CaptureStderr();
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) {
        threads.emplace_back([] {
            for (int line = 0; line < kLines; ++line) {
                log_line("abcdefghijklmnopqrstuvwxyz");
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    std::string expected;
    for (int i = 0; i < kThreads * kLines; ++i) {
        expected += "spillway: abcdefghijklmnopqrstuvwxyz\n";
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), expected);
}

TEST(LogTest, once_is_once_also_from_several_threads) {
    testing::internal::CaptureStderr();
    std::vector<std::thread> threads;
    threads.reserve(4);
    for (int i = 0; i < 4; ++i) {
        threads.emplace_back([] { log_once("from all of us"); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "spillway: from all of us\n");
}

}  // namespace
}  // namespace spillway
