// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which operator runs on this thread, so that a refusal can say who asked for the bytes.
#pragma once

#include "torch_driver/recorder/operator_callback.h"

#include <string>

namespace spillway {

/// Watches operators on the calling thread while it lives; for ever, where it ends on another one.
/// Cost: about 0.1 us an operator.
class OperatorWatch {
  public:
    OperatorWatch();
    ~OperatorWatch();
    OperatorWatch(OperatorWatch const&) = delete;
    OperatorWatch& operator=(OperatorWatch const&) = delete;

  private:
    OperatorCallback callback_;
};

/// "aten::addmm", or "an allocation" when no watched operator runs.
[[nodiscard]] std::string current_operator();

}  // namespace spillway
