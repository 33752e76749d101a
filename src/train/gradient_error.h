// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How far gradients are from the exact ones of the same step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace spillway::train {

/// Errors are relative: the L2 norm of the difference over that of the exact gradient; 0 where both
/// are 0.
struct GradientErrors {
    struct OfParameter {
        std::string name;
        double error = 0;
    };
    std::vector<OfParameter> parameters;  ///< in the model's order
    double all = 0;                       ///< of all of them as one vector
    std::int64_t decoded_bytes = 0;       ///< that backward read; 0: nothing could be lossy
};

/// One parameter's gradient, outside of any budget.
struct Gradient {
    std::string name;
    std::vector<float> values;
};

/// Both in the same order, of the same sizes.
[[nodiscard]] GradientErrors gradient_errors(
    std::vector<Gradient> const& measured, std::vector<Gradient> const& exact
);

/// For people: the whole, and the worst parameters.
[[nodiscard]] std::string to_text(GradientErrors const& errors);

}  // namespace spillway::train
