// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/observer.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>

namespace spillway {

namespace {

/// An operator that runs. A frame is one operator's, whatever observes it.
struct Frame {
    at::RecordFunction const* function = nullptr;
    char const* name = nullptr;
    std::int64_t first_node = -1;  ///< number of the next node at its begin; -1: it records none
    OpenOperator open;
};

/// Outermost first; deeper ones than fit are only counted.
struct Stack {
    std::array<Frame, 16> frames{};
    std::size_t depth = 0;
    /// Of the observers that live, by level.
    std::array<std::weak_ptr<OperatorCallback>, kObserverLevels> callbacks{};

    [[nodiscard]] bool is_inside() const { return depth > 0 && depth <= frames.size(); }
    [[nodiscard]] OpenOperator open_at(std::size_t from_inside) const {
        return is_inside() && depth > from_inside ? frames[depth - 1 - from_inside].open
                                                  : OpenOperator{};
    }
};

Stack& stack() {
    static thread_local Stack now;
    return now;
}

/// The operator's frame, now the innermost; null where it is too deep.
Frame* begins(at::RecordFunction const& function) {
    Stack& now = stack();
    if (now.is_inside() && now.frames[now.depth - 1].function == &function) {
        return &now.frames[now.depth - 1];
    }
    if (now.depth++ >= now.frames.size()) {
        return nullptr;
    }
    Frame& frame = now.frames[now.depth - 1];
    frame = {&function, function.name(), function.seqNr(), {}};
    return &frame;
}

std::unique_ptr<at::ObserverContext> name_begins(at::RecordFunction const& function) {
    (void)begins(function);
    return nullptr;
}

std::unique_ptr<at::ObserverContext> arguments_begin(at::RecordFunction const& function) {
    if (Frame* const frame = begins(function)) {
        frame->open = opened(function);
    }
    return nullptr;
}

/// The first callback that ends takes the frame along.
void ends(at::RecordFunction const& function, at::ObserverContext*) {
    Stack& now = stack();
    bool const is_too_deep = now.depth > now.frames.size();
    if (is_too_deep || (now.is_inside() && now.frames[now.depth - 1].function == &function)) {
        --now.depth;
    }
}

at::RecordFunctionCallback observing(ObserverLevel level) {
    bool const has_arguments = level == ObserverLevel::arguments;
    return at::RecordFunctionCallback(has_arguments ? &arguments_begin : &name_begins, &ends)
        .needsInputs(has_arguments)
        .scopes({at::RecordScope::FUNCTION});
}

/// One of the dispatcher's. A Python Function's has no library before its name, and the engine's
/// own name a node.
bool is_of_library(std::string_view name) {
    return name.find("::") != std::string_view::npos && !name.starts_with("autograd::");
}

}  // namespace

OperatorObserver::OperatorObserver(ObserverLevel level) {
    std::weak_ptr<OperatorCallback>& shared = stack().callbacks[static_cast<std::size_t>(level)];
    at::RecordFunctionCallback const callback = observing(level);
    callback_ = shared.lock();
    if (!OperatorCallback::is_there_one(callback)) {
        callback_ = std::make_shared<OperatorCallback>(callback);
        shared = callback_;
    }
}

OperatorObserver::~OperatorObserver() {
    // An operator that ended on another thread, where torch allows that, has left its frame here.
    if (callback_ != nullptr && callback_.use_count() == 1 && callback_->ends_here()) {
        stack().depth = 0;
    }
}

std::string current_operator() {
    Stack const& now = stack();
    if (now.depth == 0) {
        return "an allocation";
    }
    return now.frames[std::min(now.depth, now.frames.size()) - 1].name;
}

RunningOperators running_operators() {
    Stack const& now = stack();
    std::size_t const depth = std::min(now.depth, now.frames.size());
    if (depth == 0) {
        return {};
    }
    std::size_t outer = depth - 1;
    while (outer > 0 && is_of_library(now.frames[outer].name) &&
           is_of_library(now.frames[outer - 1].name)) {
        --outer;
    }
    return {now.frames[outer].name, now.frames[depth - 1].name};
}

bool operator_made_one_node() {
    Stack const& now = stack();
    if (!now.is_inside()) {
        return false;
    }
    std::int64_t const first = now.frames[now.depth - 1].first_node;
    return first >= 0 && at::sequence_number::peek() == static_cast<std::uint64_t>(first) + 1;
}

OpenOperators open_operators() {
    Stack const& now = stack();
    return {now.open_at(0), now.open_at(1)};
}

}  // namespace spillway
