// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/operator_name.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <memory>

namespace spillway {

namespace {

/// Names of the operators that run now, outermost first; deeper ones than fit are only counted.
struct RunningNames {
    std::array<char const*, 16> names{};
    std::size_t depth = 0;
    std::weak_ptr<OperatorCallback> callback;  ///< of the watches that live: one for all
};

RunningNames& running_names() {
    static thread_local RunningNames now;
    return now;
}

std::unique_ptr<at::ObserverContext> name_begins(at::RecordFunction const& function) {
    RunningNames& now = running_names();
    if (now.depth < now.names.size()) {
        now.names[now.depth] = function.name();
    }
    ++now.depth;
    return nullptr;
}

void name_ends(at::RecordFunction const&, at::ObserverContext*) {
    RunningNames& now = running_names();
    now.depth -= now.depth > 0 ? 1 : 0;
}

/// One of the dispatcher's. A Python Function's has no library before its name, and the engine's
/// own name a node.
bool is_of_library(std::string_view name) {
    return name.find("::") != std::string_view::npos && !name.starts_with("autograd::");
}

}  // namespace

OperatorWatch::OperatorWatch() {
    at::RecordFunctionCallback callback(&name_begins, &name_ends);
    callback.scopes({at::RecordScope::FUNCTION});
    callback_ = running_names().callback.lock();
    if (!OperatorCallback::is_there_one(callback)) {
        callback_ = std::make_shared<OperatorCallback>(callback);
        running_names().callback = callback_;
    }
}

OperatorWatch::~OperatorWatch() {
    if (callback_ != nullptr && callback_.use_count() == 1 && callback_->ends_here()) {
        running_names().depth = 0;
    }
}

std::string current_operator() {
    RunningNames const& now = running_names();
    if (now.depth == 0) {
        return "an allocation";
    }
    return now.names[std::min(now.depth, now.names.size()) - 1];
}

RunningOperators running_operators() {
    RunningNames const& now = running_names();
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
