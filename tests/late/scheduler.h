// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The queues and the one thread that runs them. A lane is a queue that runs in order; between lanes
// only marks order, and the seed chooses.
#pragma once

#include "late/clocks.h"
#include "late/late.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace late {

/// A position on a lane that others can wait for.
struct Mark {
    Clock clock;         ///< what is ordered before it
    bool passed = true;  ///< until it is enqueued
    std::int64_t passed_ns = 0;
};
using MarkPtr = std::shared_ptr<Mark>;  // shared: by its event, and by the queues that name it

struct Task {
    std::string name;
    std::function<void()> work{};
    MarkPtr wait_for{};
    MarkPtr signal{};
    std::int64_t size_bytes = 0;
    bool timed = true;             ///< takes virtual time
    std::int64_t enqueued_ns = 0;  ///< the scheduler's to fill
};

/// How many tasks each lane has, or must have, behind it.
using Progress = std::vector<std::uint64_t>;

/// Thread  every function may be called from any thread
class Scheduler {
  public:
    Scheduler();  // never destroyed: tensors outlive main()

    /// Starts again with an idle executor (checked).
    void configure(Options const& options, std::size_t lanes);

    void enqueue(Actor lane, Task task);

    /// Runs what the seed chooses until the mark has passed. `on_host`: the host's clock waits too.
    void wait(MarkPtr const& mark, bool on_host = true);
    /// Runs all that is enqueued.
    void wait_idle();
    /// Runs one to three tasks (in virtual time: those of the past), and asks then.
    void poll();
    [[nodiscard]] bool poll(MarkPtr const& mark);
    [[nodiscard]] bool poll_lane(Actor lane);
    void keep_running(int change);

    /// Throws what a task has thrown since the last call.
    void raise_failure();

    [[nodiscard]] Progress enqueued() const;
    [[nodiscard]] bool reached(Progress const& progress) const;
    [[nodiscard]] std::uint64_t order_hash() const;
    [[nodiscard]] std::int64_t executed() const;
    [[nodiscard]] std::int64_t virtual_now() const;
    void advance_host_to(std::int64_t ns);
    [[nodiscard]] static bool on_executor();

  private:
    struct Lane {
        std::deque<Task> waiting;
        std::uint64_t enqueued = 0;
        std::uint64_t executed = 0;
        std::int64_t time_ns = 0;
    };

    void run();
    void step(std::unique_lock<std::mutex>& lock, Actor lane);
    void work_of(std::unique_lock<std::mutex>& lock, Task& task, Actor lane);
    [[nodiscard]] std::optional<Actor> choose();
    [[nodiscard]] bool waited_for() const;
    [[nodiscard]] bool wanted() const { return steps_ > 0 || waited_for(); }
    [[nodiscard]] bool idle() const;
    [[nodiscard]] std::int64_t start_of(Lane const& lane) const;
    void poll_some(std::unique_lock<std::mutex>& lock);
    void poll_cost(bool in_vain);

    mutable std::mutex mutex_;
    std::condition_variable to_run_;
    std::condition_variable has_run_;
    Options options_;
    std::vector<Lane> lanes_;
    std::mt19937_64 random_;
    std::vector<Mark const*> waited_for_;
    int waiting_for_idle_ = 0;
    int keep_running_ = 0;
    int steps_ = 0;  ///< that polls still want
    bool busy_ = false;
    std::exception_ptr failure_;
    std::uint64_t order_hash_ = 0;
    std::int64_t executed_ = 0;
    std::int64_t host_ns_ = 0;
};

}  // namespace late
