// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What runs; what Clang proves is for tools/check_locks_test.py.
#include "base/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace spillway {
namespace {

class Box {
  public:
    /// Waits until the other thread has put `value` there, with the lock let go of meanwhile.
    void wait_for_value(int value) {
        MutexLock const lock(mutex_);
        waiting_ = true;
        changed_.notify_all();
        changed_.wait(mutex_, [this, value]() SPILLWAY_REQUIRES(mutex_) {
            return value_ == value;
        });
        waiting_ = false;
    }
    void put_when_waited_for(int value) {
        MutexLock const lock(mutex_);
        while (!waiting_) {
            changed_.wait(mutex_);
        }
        value_ = value;
        changed_.notify_all();
    }
    bool is_there_soon(int value) {
        MutexLock const lock(mutex_);
        auto const is_there = [this, value]() SPILLWAY_REQUIRES(mutex_) { return value_ == value; };
        return changed_.wait_for(mutex_, std::chrono::microseconds(1), is_there);
    }
    /// What another thread has put there while this one had let go.
    int let_another_put(int value) {
        MutexLock const lock(mutex_);
        value_ = 0;
        {
            MutexUnlock const unlocked(mutex_);
            std::thread([this, value] {
                MutexLock const other(mutex_);
                value_ = value;
            }).join();
        }
        return value_;
    }

  private:
    Mutex mutex_;
    ConditionVariable changed_;
    bool waiting_ SPILLWAY_GUARDED_BY(mutex_) = false;
    int value_ SPILLWAY_GUARDED_BY(mutex_) = 0;
};

TEST(MutexTest, a_wait_lets_the_mutex_go_and_has_it_again) {
    Box box;
    std::thread other([&box] { box.put_when_waited_for(7); });
    box.wait_for_value(7);
    other.join();
    EXPECT_TRUE(box.is_there_soon(7));
}

TEST(MutexTest, a_wait_with_an_end_tells_whether_it_came_true) {
    Box box;
    EXPECT_FALSE(box.is_there_soon(7));
    EXPECT_TRUE(box.is_there_soon(0));
}

TEST(MutexTest, a_scope_can_let_go_of_what_its_caller_holds) {
    EXPECT_EQ(Box().let_another_put(3), 3);
}

}  // namespace
}  // namespace spillway
