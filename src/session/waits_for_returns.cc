// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/waits_for_returns.h"

#include <utility>

namespace spillway {

void WaitsForReturns::keep(bool keep) {
    *this = {};
    keeps_ = keep;
}

void WaitsForReturns::begins(CommandId command, ValueId value) {
    if (keeps_) {
        returns_.emplace(command, value);
    }
}

void WaitsForReturns::waited(ValueId value, std::int64_t waited_ns) {
    if (keeps_ && waited_ns > 0) {
        waits_ns_[value] += waited_ns;
    }
}

void WaitsForReturns::waited(CommandId command, std::int64_t waited_ns) {
    for (auto const* const returns : {&returns_, &returns_before_}) {
        if (auto const found = returns->find(command); found != returns->end()) {
            waited(found->second, waited_ns);
        }
    }
}

std::map<ValueId, std::int64_t> WaitsForReturns::take() {
    returns_before_ = std::exchange(returns_, {});
    return std::exchange(waits_ns_, {});
}

}  // namespace spillway
