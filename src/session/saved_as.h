// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// How a saved value is to leave the device, as the driver's rule decides when it is saved.
#pragma once

#include "codec/codec.h"
#include "executor/advice.h"
#include "trace/tensor_class.h"

#include <cstdint>
#include <optional>

namespace spillway {

/// What becomes of a value with NaN or infinity that its codec cannot give back. A mask with a
/// third value is never refused: it goes as it is.
enum class NonFinite : std::uint8_t {
    keep,    ///< it goes as it is, exact
    refuse,  ///< the step stops where the value is needed
};

struct SavedAs {
    std::optional<Encoding> encoding = std::nullopt;  ///< none: it goes as it is
    Advice advice = Advice::when_asked;
    TensorClass tensor_class = TensorClass::other;
    std::uint64_t seed = 0;  ///< of stochastic rounding; set by the loop

    bool operator==(SavedAs const&) const = default;
};

}  // namespace spillway
