// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The error of a tensor that was written in place after it was saved, in torch's own words.
#pragma once

#include "torch_driver/compat.h"

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace spillway {

/// Raises what plain autograd raises in the torch that runs, by having torch raise it: a saved
/// variable of the same kind is made at `saved_version`, moved to `now`, and unpacked.
///
/// `like` gives type and sizes; its bytes are not read. `node` (may be null) and `output` name what
/// made the tensor.
[[noreturn]] void raise_written_in_place(
    at::Tensor const& like,
    std::uint32_t saved_version,
    std::uint32_t now,
    NodePtr node,
    std::uint32_t output
);

}  // namespace spillway
