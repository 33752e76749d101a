// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which operator runs on this thread, so that a refusal can name the one that asked for the bytes,
// and `explain` the one that saved a tensor.
#pragma once

#include "torch_driver/recorder/operator_callback.h"

#include <memory>
#include <string>
#include <string_view>

namespace spillway {

/// Watches operators on the calling thread while it lives; for ever, where it ends on another one.
/// Cost: about 0.1 us an operator, however many there are.
class OperatorWatch {
  public:
    OperatorWatch();
    ~OperatorWatch();
    OperatorWatch(OperatorWatch const&) = delete;
    OperatorWatch& operator=(OperatorWatch const&) = delete;

  private:
    std::shared_ptr<OperatorCallback> callback_;  ///< that all of the thread share
};

/// "aten::addmm", or "an allocation" when no watched operator runs.
[[nodiscard]] std::string current_operator();

/// Valid until the operator ends; empty when none runs.
struct RunningOperators {
    std::string_view outer;  ///< that the model called: "aten::linear"
    std::string_view inner;  ///< inside it, maybe the same: "aten::addmm"
};
[[nodiscard]] RunningOperators running_operators();

}  // namespace spillway
