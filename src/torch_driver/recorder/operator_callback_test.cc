// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/operator_callback.h"

#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace spillway {
namespace {

int& operators_seen() {
    static thread_local int operators = 0;
    return operators;
}

std::unique_ptr<at::ObserverContext> begins(at::RecordFunction const&) {
    ++operators_seen();
    return nullptr;
}

at::RecordFunctionCallback counting() {
    return at::RecordFunctionCallback(&begins).scopes({at::RecordScope::FUNCTION});
}

/// How many operators were seen while one ran.
int seen_of_one() {
    int const before = operators_seen();
    (void)at::ones({2});
    return operators_seen() - before;
}

TEST(OperatorCallbackTest, operators_of_the_thread_are_seen_while_it_lives) {
    {
        OperatorCallback const callback(counting());
        EXPECT_TRUE(callback.ends_here());
        EXPECT_TRUE(OperatorCallback::is_there_one(counting()));
        EXPECT_GT(seen_of_one(), 0);
        std::thread([] { EXPECT_EQ(seen_of_one(), 0); }).join();
    }
    EXPECT_FALSE(OperatorCallback::is_there_one(counting()));
    EXPECT_EQ(seen_of_one(), 0);
}

TEST(OperatorCallbackTest, ended_on_another_thread_it_stays_where_it_is) {
    std::thread([] {
        auto callback = std::make_unique<OperatorCallback>(counting());
        std::thread([&] {
            EXPECT_FALSE(callback->ends_here());
            callback.reset();
        }).join();
        EXPECT_GT(seen_of_one(), 0);
    }).join();
}

}  // namespace
}  // namespace spillway
