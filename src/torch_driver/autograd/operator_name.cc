// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/operator_name.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <memory>

namespace spillway {

namespace {

/// Names of the operators that run now, outermost first; deeper ones than fit are only counted.
struct Running {
    std::array<char const*, 16> names{};
    std::size_t depth = 0;
};

Running& running() {
    static thread_local Running now;
    return now;
}

std::unique_ptr<at::ObserverContext> operator_begins(at::RecordFunction const& function) {
    Running& now = running();
    if (now.depth < now.names.size()) {
        now.names[now.depth] = function.name();
    }
    ++now.depth;
    return nullptr;
}

void operator_ends(at::RecordFunction const&, at::ObserverContext*) {
    Running& now = running();
    now.depth -= now.depth > 0 ? 1 : 0;
}

/// A backward gives its threads the callbacks that its forward had, and at its end their own back.
bool is_called_back(std::uint64_t handle) {
    auto const& callbacks = at::get_record_function_tls_().sorted_tls_callbacks_;
    return std::any_of(callbacks.begin(), callbacks.end(), [&](auto const& callback) {
        return callback.handle_ == handle;
    });
}

}  // namespace

OperatorWatch::OperatorWatch()
    : handle_(at::addThreadLocalCallback(
          at::RecordFunctionCallback(&operator_begins, &operator_ends)
              .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION})
      )) {}

OperatorWatch::~OperatorWatch() {
    // Torch takes it out on its own thread alone.
    if (std::this_thread::get_id() == thread_ && is_called_back(handle_)) {
        at::removeCallback(handle_);
        running().depth = 0;
    }
}

std::string current_operator() {
    Running const& now = running();
    if (now.depth == 0) {
        return "an allocation";
    }
    return now.names[std::min(now.depth, now.names.size()) - 1];
}

}  // namespace spillway
