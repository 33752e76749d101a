// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/python/python_lock.h"

#include "torch_driver/python/python_function.h"

#include <cstdint>
#include <utility>

namespace spillway {

namespace {

/// Three functions of Python's stable ABI, as the program or its libpython exports them.
struct Python {
    int (*check)() = python_function<int()>("PyGILState_Check");
    void* (*save_thread)() = python_function<void*()>("PyEval_SaveThread");
    void (*restore_thread)(void*) = python_function<void(void*)>("PyEval_RestoreThread");
    int (*is_initialized)() = python_function<int()>("Py_IsInitialized");
    /// Which only a free-threaded Python exports.
    bool const is_free_threaded = python_function<void()>("PyUnstable_Module_SetGIL") != nullptr;

    [[nodiscard]] bool is_here() const {
        return check != nullptr && save_thread != nullptr && restore_thread != nullptr &&
               is_initialized != nullptr;
    }
};

/// Looked up once: who has a Python has it before torch's Python package loads this library.
Python const& python() {
    static Python const found;
    return found;
}

}  // namespace

bool holds_python_lock() {
    // A Python that ends answers the check with yes on every thread.
    return python().is_here() && python().is_initialized() != 0 && python().check() != 0;
}

std::size_t python_references(PyObject const* object) {
    if (python().is_free_threaded) {
        return 2;
    }
    // An object begins with its count, in 32 bits or 64; the machine is little-endian.
    auto const* const count = reinterpret_cast<std::uint32_t const*>(object);
    return __atomic_load_n(count, __ATOMIC_RELAXED);
}

WithoutPythonLock::WithoutPythonLock(bool wanted) {
    if (wanted && holds_python_lock()) {
        thread_state_ = python().save_thread();
    }
}

WithoutPythonLock::~WithoutPythonLock() {
    end();
}

void WithoutPythonLock::end() {
    if (void* const state = std::exchange(thread_state_, nullptr)) {
        python().restore_thread(state);
    }
}

}  // namespace spillway
