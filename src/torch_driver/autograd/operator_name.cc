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
    std::weak_ptr<OperatorCallback> callback;  ///< of the watches that live: one for all
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

/// One of the dispatcher's. A Python Function's has no library before its name, and the engine's
/// own name a node.
bool is_of_library(std::string_view name) {
    return name.find("::") != std::string_view::npos && !name.starts_with("autograd::");
}

}  // namespace

OperatorWatch::OperatorWatch() {
    at::RecordFunctionCallback callback(&operator_begins, &operator_ends);
    callback.scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION});
    callback_ = running().callback.lock();
    if (!OperatorCallback::is_there_one(callback)) {
        callback_ = std::make_shared<OperatorCallback>(callback);
        running().callback = callback_;
    }
}

OperatorWatch::~OperatorWatch() {
    if (callback_ != nullptr && callback_.use_count() == 1 && callback_->ends_here()) {
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

RunningOperators running_operators() {
    Running const& now = running();
    std::size_t const depth = std::min(now.depth, now.names.size());
    if (depth == 0) {
        return {};
    }
    std::size_t outer = depth - 1;
    while (outer > 0 && is_of_library(now.names[outer]) && is_of_library(now.names[outer - 1])) {
        --outer;
    }
    return {now.names[outer], now.names[depth - 1]};
}

}  // namespace spillway
