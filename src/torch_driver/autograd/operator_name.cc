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

}  // namespace

OperatorWatch::OperatorWatch()
    : callback_(at::RecordFunctionCallback(&operator_begins, &operator_ends)
                    .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION})) {}

OperatorWatch::~OperatorWatch() {
    if (callback_.ends_here()) {
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
