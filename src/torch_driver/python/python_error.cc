// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/python/python_error.h"

#include "torch_driver/python/python_function.h"

#include <unistd.h>

#include <memory>
#include <utility>

namespace spillway {

namespace {

struct Errors {
    void (*take)(PyObject**, PyObject**, PyObject**) =
        python_function<void(PyObject**, PyObject**, PyObject**)>("PyErr_Fetch");
    void (*normalize)(PyObject**, PyObject**, PyObject**) =
        python_function<void(PyObject**, PyObject**, PyObject**)>("PyErr_NormalizeException");
    void (*set)(PyObject*, PyObject*, PyObject*) =
        python_function<void(PyObject*, PyObject*, PyObject*)>("PyErr_Restore");
    void (*release)(PyObject*) = python_function<void(PyObject*)>("Py_DecRef");
    int (*call_soon
    )(int (*)(void*), void*) = python_function<int(int (*)(void*), void*)>("Py_AddPendingCall");
    int (*raise_soon
    )(unsigned long,
      PyObject*) = python_function<int(unsigned long, PyObject*)>("PyThreadState_SetAsyncExc");
    unsigned long (*this_thread)() = python_function<unsigned long()>("PyThread_get_thread_ident");
};

Errors const& errors() {
    static Errors const found;
    return found;
}

}  // namespace

PythonError::PythonError() {
    errors().take(&type_, &value_, &trace_);
    errors().normalize(&type_, &value_, &trace_);
}

PythonError::~PythonError() {
    for (PyObject* const part : {type_, value_, trace_}) {
        if (part != nullptr) {
            errors().release(part);
        }
    }
}

PythonError::PythonError(PythonError&& other) noexcept
    : type_(std::exchange(other.type_, nullptr)),
      value_(std::exchange(other.value_, nullptr)),
      trace_(std::exchange(other.trace_, nullptr)) {}

PythonError& PythonError::operator=(PythonError&& other) noexcept {
    std::swap(type_, other.type_);
    std::swap(value_, other.value_);
    std::swap(trace_, other.trace_);
    return *this;
}

void PythonError::raise_soon() && {
    if (::gettid() != ::getpid()) {
        errors().raise_soon(errors().this_thread(), type_);
        return;
    }
    auto kept = std::make_unique<PythonError>(std::move(*this));
    auto const raise = [](void* argument) {
        std::unique_ptr<PythonError> const error(static_cast<PythonError*>(argument));
        errors().set(
            std::exchange(error->type_, nullptr),
            std::exchange(error->value_, nullptr),
            std::exchange(error->trace_, nullptr)
        );
        return -1;
    };
    // Refused where dozens wait already: the program has errors enough to raise.
    if (errors().call_soon(raise, kept.get()) == 0) {
        static_cast<void>(kept.release());
    }
}

}  // namespace spillway
