// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/operator_callback.h"

#include <ATen/record_function.h>

#include <algorithm>

namespace spillway {

namespace {

/// A backward gives its threads the callbacks that its forward had, and at its end their own back.
template <typename Test>
bool any_callback_here(Test const& test) {
    auto const& callbacks = at::get_record_function_tls_().sorted_tls_callbacks_;
    return std::any_of(callbacks.begin(), callbacks.end(), test);
}

}  // namespace

OperatorCallback::OperatorCallback(at::RecordFunctionCallback const& callback)
    : handle_(at::addThreadLocalCallback(callback)) {}

OperatorCallback::~OperatorCallback() {
    if (ends_here()) {
        at::removeCallback(handle_);
    }
}

bool OperatorCallback::ends_here() const {
    // Torch takes it out on its own thread alone.
    return std::this_thread::get_id() == thread_ &&
           any_callback_here([this](auto const& each) { return each.handle_ == handle_; });
}

bool OperatorCallback::is_there_one(at::RecordFunctionCallback const& callback) {
    return any_callback_here([&](auto const& each) {
        return each.callback_.start() == callback.start();
    });
}

void call_back_on_all_threads(at::RecordFunctionCallback const& callback) {
    (void)at::addGlobalCallback(callback);
}

}  // namespace spillway
