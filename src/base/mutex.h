// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A mutex, its scoped locks and a condition variable whose use Clang checks (-Wthread-safety, run
// by tools/check_locks.py), and the annotations that specify what a mutex guards. Under other
// compilers the annotations expand to nothing.
//
//   int x_ SPILLWAY_GUARDED_BY(mutex_);       read and written with `mutex_` held
//   void f() SPILLWAY_REQUIRES(mutex_);       called with `mutex_` held; also on a lambda, after ()
//   void g() SPILLWAY_EXCLUDES(mutex_);       called without it: it locks
//
// A class with no lock of its own states that in its Thread line; the SPILLWAY_GUARDED_BY on its
// owner's member is the contract.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__) && !defined(__CUDACC__)
#define SPILLWAY_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define SPILLWAY_THREAD_ATTRIBUTE(x)
#endif

#define SPILLWAY_CAPABILITY(name) SPILLWAY_THREAD_ATTRIBUTE(capability(name))
#define SPILLWAY_SCOPED_CAPABILITY SPILLWAY_THREAD_ATTRIBUTE(scoped_lockable)
#define SPILLWAY_GUARDED_BY(mutex) SPILLWAY_THREAD_ATTRIBUTE(guarded_by(mutex))
#define SPILLWAY_REQUIRES(...) SPILLWAY_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define SPILLWAY_EXCLUDES(...) SPILLWAY_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
#define SPILLWAY_ACQUIRE(...) SPILLWAY_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define SPILLWAY_RELEASE(...) SPILLWAY_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
/// Not checked inside; the reason stands beside it.
#define SPILLWAY_LOCKS_UNCHECKED SPILLWAY_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace spillway {

class SPILLWAY_CAPABILITY("mutex") Mutex {
  public:
    void lock() SPILLWAY_ACQUIRE() { mutex_.lock(); }
    void unlock() SPILLWAY_RELEASE() { mutex_.unlock(); }

  private:
    friend class ConditionVariable;
    std::mutex mutex_;
};

/// Holds a mutex as long as it lives.
class SPILLWAY_SCOPED_CAPABILITY MutexLock {
  public:
    explicit MutexLock(Mutex& mutex) SPILLWAY_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
    MutexLock(MutexLock const&) = delete;
    MutexLock& operator=(MutexLock const&) = delete;
    ~MutexLock() SPILLWAY_RELEASE() { mutex_.unlock(); }

  private:
    Mutex& mutex_;
};

/// Lets a mutex go that the caller holds, as long as it lives; what it guards may have changed
/// then.
class SPILLWAY_SCOPED_CAPABILITY MutexUnlock {
  public:
    explicit MutexUnlock(Mutex& mutex) SPILLWAY_RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
    MutexUnlock(MutexUnlock const&) = delete;
    MutexUnlock& operator=(MutexUnlock const&) = delete;
    ~MutexUnlock() SPILLWAY_RELEASE() { mutex_.lock(); }

  private:
    Mutex& mutex_;
};

/// std::condition_variable for a Mutex that the caller holds. A predicate is called with the mutex
/// held: a lambda has to be annotated SPILLWAY_REQUIRES.
class ConditionVariable {
  public:
    void notify_one() noexcept { changed_.notify_one(); }
    void notify_all() noexcept { changed_.notify_all(); }

    // Without a predicate each may return without a reason, as std's do.

    void wait(Mutex& mutex) SPILLWAY_REQUIRES(mutex) {
        Adopted lock(mutex);
        changed_.wait(lock.held);
    }
    // Unchecked: the analysis cannot see that the predicate's mutex is this one.
    template <typename Predicate>
    void wait(Mutex& mutex, Predicate const& predicate)
        SPILLWAY_REQUIRES(mutex) SPILLWAY_LOCKS_UNCHECKED {
        Adopted lock(mutex);
        changed_.wait(lock.held, predicate);
    }
    template <typename Duration>
    void wait_for(Mutex& mutex, Duration duration) SPILLWAY_REQUIRES(mutex) {
        Adopted lock(mutex);
        changed_.wait_for(lock.held, duration);
    }
    /// False: `duration` is over, and the predicate still false.
    template <typename Duration, typename Predicate>
    bool wait_for(Mutex& mutex, Duration duration, Predicate const& predicate)
        SPILLWAY_REQUIRES(mutex) SPILLWAY_LOCKS_UNCHECKED {
        Adopted lock(mutex);
        return changed_.wait_for(lock.held, duration, predicate);
    }
    template <typename Time>
    void wait_until(Mutex& mutex, Time const& time) SPILLWAY_REQUIRES(mutex) {
        Adopted lock(mutex);
        changed_.wait_until(lock.held, time);
    }

  private:
    /// The caller's hold, lent to std.
    struct Adopted {
        explicit Adopted(Mutex& mutex) : held(mutex.mutex_, std::adopt_lock) {}
        Adopted(Adopted const&) = delete;
        Adopted& operator=(Adopted const&) = delete;
        ~Adopted() { held.release(); }
        std::unique_lock<std::mutex> held;
    };

    std::condition_variable changed_;
};

}  // namespace spillway
