// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a call into Python raised. All of it under Python's lock.
#pragma once

#include <c10/util/python_stub.h>

namespace spillway {

/// Note [Errors of signal handlers]
/// While C++ waits for a disk, Python runs no signal handler. It does so at the first line of
/// Python that comes next, which may be one that we call: what a handler raises there (Ctrl-C's
/// KeyboardInterrupt, a deadline's TimeoutError) is no failure of ours, comes once, and belongs to
/// the program.
class PythonError {
  public:
    /// Takes the error that the calling thread has, and has no more.
    PythonError();
    ~PythonError();
    PythonError(PythonError&& other) noexcept;
    PythonError& operator=(PythonError&& other) noexcept;
    PythonError(PythonError const&) = delete;
    PythonError& operator=(PythonError const&) = delete;

    [[nodiscard]] PyObject* type() const { return type_; }
    [[nodiscard]] PyObject* value() const { return value_; }
    /// Of the same class.
    [[nodiscard]] bool is_like(PythonError const& other) const { return type_ == other.type_; }

    /// The calling thread raises it as soon as it runs the program's own code again. On another
    /// thread than the main one, where no signal handler runs, it is its class alone.
    void raise_soon() &&;

  private:
    PyObject* type_ = nullptr;
    PyObject* value_ = nullptr;
    PyObject* trace_ = nullptr;
};

}  // namespace spillway
