// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Python's global lock (the GIL), where this process has a Python: without Python's headers, so
// that one binary serves every Python. In a C++ program nothing here does anything.
#pragma once

#include <c10/util/python_stub.h>

#include <cstddef>

namespace spillway {

/// Whether the calling thread holds it. False where there is no Python.
[[nodiscard]] bool holds_python_lock();

/// How many references Python counts to an object, read without the lock: it may change meanwhile.
/// Two, which is more than the one that matters, where a free-threaded Python counts elsewhere.
[[nodiscard]] std::size_t python_references(PyObject const* object);

/// While it lives, the calling thread does not hold Python's lock, so that other Python threads
/// run. Does nothing where `wanted` is false, or where the thread does not hold it.
///
/// Thread  made and ended on one thread
class WithoutPythonLock {
  public:
    explicit WithoutPythonLock(bool wanted);
    ~WithoutPythonLock();
    WithoutPythonLock(WithoutPythonLock const&) = delete;
    WithoutPythonLock& operator=(WithoutPythonLock const&) = delete;

    /// Takes the lock back now.
    void end();
    [[nodiscard]] bool is_released() const { return thread_state_ != nullptr; }

  private:
    void* thread_state_ = nullptr;
};

}  // namespace spillway
