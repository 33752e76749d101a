// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/optimizer_steps.h"

#include "torch_driver/recorder/operator_callback.h"

#include <ATen/record_function.h>

#include <memory>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

namespace spillway {

namespace {

using Ended = std::vector<std::function<void()>>;

/// Of the steps that this thread is in, innermost last.
std::vector<Ended>& steps_here() {
    static thread_local std::vector<Ended> steps;
    return steps;
}

struct IsStep final : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> begins(at::RecordFunction const& function) {
    if (!std::string_view(function.name()).starts_with("Optimizer.step#")) {
        return nullptr;
    }
    steps_here().emplace_back();
    return std::make_unique<IsStep>();
}

void ends(at::RecordFunction const&, at::ObserverContext* context) {
    if (context == nullptr || steps_here().empty()) {
        return;
    }
    Ended const ended = std::move(steps_here().back());
    steps_here().pop_back();
    for (auto const& each : ended) {
        each();
    }
}

}  // namespace

void watch_optimizer_steps() {
    static std::once_flag once;
    std::call_once(once, [] {
        call_back_on_all_threads(
            at::RecordFunctionCallback(&begins, &ends).scopes({at::RecordScope::USER_SCOPE})
        );
    });
}

bool at_end_of_step(std::function<void()> ended) {
    if (steps_here().empty()) {
        return false;
    }
    steps_here().back().push_back(std::move(ended));
    return true;
}

}  // namespace spillway
