// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which operators run on this thread, with the tensors that they were given, so that it is known
// what saves a tensor. Not for errors: that is operator_name.h, which is always on.
#pragma once

#include "torch_driver/recorder/operator_callback.h"

#include <c10/core/TensorImpl.h>

#include <cstdint>
#include <optional>

namespace spillway {

/// What kind of operator it is, as far as that determines what its saved tensors are.
enum class OperatorKind : std::uint8_t {
    unknown,
    product,      ///< of two matrices
    convolution,  ///< of an input and a weight
    norm,         ///< of an input; what it gives beside its result are statistics
    activation,   ///< pointwise and smooth, and its gradient reads its input
    rectifier,    ///< its gradient reads whether its result is above 0
    attention,    ///< all of it: inputs, result, log-sum-exps
    dropout,      ///< where a multiplication by a mask runs inside it
    multiplication,
    power,
};

/// An operator that runs. Its tensors live while it does.
struct OpenOperator {
    OperatorKind kind = OperatorKind::unknown;
    std::int64_t node_number = -1;  ///< sequence number of the first node made in it
    /// What it works on, without what scales or biases that; null where there are fewer.
    c10::TensorImpl const* first = nullptr;
    c10::TensorImpl const* second = nullptr;
    c10::TensorImpl const* third = nullptr;
};

/// The innermost operator that runs on this thread, and the one around it. `unknown` where none
/// does, where it is none that is known, and where none are watched.
struct OpenOperators {
    OpenOperator inner;
    OpenOperator outer;
};
[[nodiscard]] OpenOperators open_operators();

/// Watches the calling thread's operators while it lives, with those that run the same backward for
/// it; for ever, where it ends on another thread. May be nested. Cost: about 0.3 us an operator.
class OpenOperatorWatch {
  public:
    OpenOperatorWatch();
    ~OpenOperatorWatch();
    OpenOperatorWatch(OpenOperatorWatch const&) = delete;
    OpenOperatorWatch& operator=(OpenOperatorWatch const&) = delete;

  private:
    std::optional<OperatorCallback> callback_;  ///< none: one around it watches
};

}  // namespace spillway
