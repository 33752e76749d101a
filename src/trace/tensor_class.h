// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a saved tensor is to the operator that saves it: what may be lost of it hangs on that.
#pragma once

#include "base/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace spillway {

enum class TensorClass : std::uint8_t {
    linear_input,       ///< of a matrix product with a parameter
    convolution_input,  ///< the same of a convolution
    norm_input,         ///< of a layer, batch, group or RMS norm
    activation_input,   ///< of a pointwise function whose gradient needs the value: GELU, SiLU
    relu_output,        ///< only its signs are needed
    mask,               ///< 0 or one other value: dropout's
    attention,          ///< what attention takes and gives
    statistics,         ///< means, inverse deviations, log-sum-exps: small and needed exactly
    index,              ///< integers
    other,              ///< all that nothing is known of
};
inline constexpr std::size_t kTensorClasses = 10;

/// "linear_input" and so on.
[[nodiscard]] std::string_view name_of(TensorClass tensor_class);
/// Fails   Errc::bad_argument naming the text and the classes that there are
[[nodiscard]] Result<TensorClass> parse_tensor_class(std::string_view name);

/// Of two savers of one storage: what both allow. Equal classes stay, all others become `other`,
/// which is never lossy.
[[nodiscard]] TensorClass both(TensorClass one, TensorClass another);

/// What one storage is to those that save it.
class SaverClasses {
  public:
    void add(TensorClass one);
    /// To all of them; `other` before the first.
    [[nodiscard]] TensorClass all() const { return all_; }
    /// To each of them, once, where they differ; else empty.
    [[nodiscard]] std::vector<TensorClass> differing() const;

  private:
    TensorClass all_ = TensorClass::other;
    std::vector<TensorClass> each_;
};

}  // namespace spillway
