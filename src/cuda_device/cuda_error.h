// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The one wrapper of calls into the CUDA runtime: its status as a Result, in its own words.
#pragma once

#include "base/result.h"

#include <cuda_runtime_api.h>

#include <string_view>

namespace spillway {

/// The outcome of a CUDA call. The error reads "`what`: CUDA's message (CUDA's name)", and what to
/// do where that is known. CUDA's last error is cleared, so that a later check does not report it.
///
/// Fails   Errc::unsupported (no GPU, or no driver that fits), Errc::out_of_memory,
///         Errc::bad_argument, Errc::io (all else)
[[nodiscard]] Result<void> checked(
    cudaError_t status, std::string_view what, std::string_view where
);

}  // namespace spillway
