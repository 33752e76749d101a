// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/host_coding.h"

#include <utility>

namespace spillway {

void HostCoding::start(int threads, std::function<void()> const& enter, Done const& done) {
    for (int i = 0; i < threads; ++i) {
        threads_.emplace_back([this, enter, done] {
            enter();
            work(done);
        });
    }
}

void HostCoding::stop() {
    {
        MutexLock const lock(mutex_);
        stopping_ = true;
        pushed_.notify_all();
    }
    for (std::thread& thread : threads_) {
        thread.join();
    }
}

void HostCoding::push(CodingJob job) {
    MutexLock const lock(mutex_);
    (job.is_encode() ? encodes_ : decodes_).push_back(std::move(job));
    pushed_.notify_one();
}

void HostCoding::work(Done const& done) {
    MutexLock const lock(mutex_);
    while (true) {
        pushed_.wait(mutex_, [this]() SPILLWAY_REQUIRES(mutex_) { return stopping_ || has_job(); });
        if (!has_job()) {
            return;
        }
        std::deque<CodingJob>& first = decodes_.empty() ? encodes_ : decodes_;
        CodingJob const job = std::move(first.front());
        first.pop_front();
        MutexUnlock const unlocked(mutex_);
        done(job, run(job));
    }
}

}  // namespace spillway
