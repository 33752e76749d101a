// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Torch's callbacks around operators (at::RecordFunction). All of ours are installed here.
#pragma once

#include <cstdint>
#include <thread>

namespace at {
class RecordFunctionCallback;
}

namespace spillway {

/// While it lives, torch calls a callback around the operators of the thread that it was made on,
/// and of those that run the same backward for it; for ever, where it ends on another thread.
///
/// Thread  made on the thread that it is about
class OperatorCallback {
  public:
    explicit OperatorCallback(at::RecordFunctionCallback const& callback);
    ~OperatorCallback();
    OperatorCallback(OperatorCallback const&) = delete;
    OperatorCallback& operator=(OperatorCallback const&) = delete;

    /// The calling thread is its own, and torch calls it there: its end will end that.
    [[nodiscard]] bool ends_here() const;

    /// The calling thread has a callback with the same functions as `callback`.
    [[nodiscard]] static bool is_there_one(at::RecordFunctionCallback const& callback);

  private:
    std::uint64_t handle_;
    std::thread::id const thread_ = std::this_thread::get_id();
};

/// Torch calls `callback` on all threads, until the process ends.
void call_back_on_all_threads(at::RecordFunctionCallback const& callback);

}  // namespace spillway
