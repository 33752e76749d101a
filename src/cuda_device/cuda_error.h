// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The one wrapper of calls into the CUDA runtime: its status as a Result, in its own words.
#pragma once

#include "base/result.h"

#include <cuda_runtime_api.h>

#include <string_view>

namespace spillway {

/// What a CUDA call returned. The error says "`what`: CUDA's words (CUDA's name)" and what to do,
/// where that is known; CUDA forgets it, so that whoever asks next does not take it for its own.
///
/// Fails   Errc::unsupported (no GPU, or no driver that fits), Errc::out_of_memory,
///         Errc::bad_argument, Errc::io (all else)
[[nodiscard]] Result<void> checked(
    cudaError_t status, std::string_view what, std::string_view where
);

}  // namespace spillway
