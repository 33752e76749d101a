// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What kind of operator runs, and the tensors that it works on, so that it is known what saves a
// tensor.
#pragma once

#include <c10/core/TensorImpl.h>

#include <cstdint>

namespace at {
struct RecordFunction;
}

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

/// What `function`, which begins and has its arguments, is.
[[nodiscard]] OpenOperator opened(at::RecordFunction const& function);

}  // namespace spillway
