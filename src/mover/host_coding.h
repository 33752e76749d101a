// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The threads that encode and decode on the host.
#pragma once

#include "base/mutex.h"
#include "mover/coding_job.h"

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

namespace spillway {

/// Decodes go first where both could, since compute waits for them; each kind in order.
///
/// Thread  every function may be called from any thread, but `start` and `stop`: once each, first
///         and last
class HostCoding {
  public:
    /// Called by the thread that ran the job, without a lock of this class.
    using Done = std::function<void(CodingJob const&, CodingResult)>;

    HostCoding() = default;
    HostCoding(HostCoding const&) = delete;
    HostCoding& operator=(HostCoding const&) = delete;
    /// After `stop`, where there are threads.
    ~HostCoding() = default;

    /// `enter` is the first that each thread calls.
    void start(int threads, std::function<void()> const& enter, Done const& done);
    /// Waits for the jobs that were pushed; none may be pushed any more.
    void stop();

    /// False: whoever has a job runs it.
    [[nodiscard]] bool has_threads() const { return !threads_.empty(); }
    void push(CodingJob job) SPILLWAY_EXCLUDES(mutex_);

  private:
    void work(Done const& done);
    [[nodiscard]] bool has_job() const SPILLWAY_REQUIRES(mutex_) {
        return !decodes_.empty() || !encodes_.empty();
    }

    Mutex mutex_;
    ConditionVariable pushed_;
    std::deque<CodingJob> encodes_ SPILLWAY_GUARDED_BY(mutex_);
    std::deque<CodingJob> decodes_ SPILLWAY_GUARDED_BY(mutex_);
    bool stopping_ SPILLWAY_GUARDED_BY(mutex_) = false;
    std::vector<std::thread> threads_;  ///< last: they use all of the above
};

}  // namespace spillway
