// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The codes of `lossless`: frames of kFrameBytes, each shuffled and compressed by zstd, or as it is
// where that would not be shorter. A thread keeps zstd's memory from its first frame on.
#pragma once

#include "codec/job.h"

namespace spillway {

/// Bytes written to `codes`, which has room for every outcome.
[[nodiscard]] std::int64_t compress(
    Kernels const& kernels, Dtype dtype, std::span<std::byte const> raw, std::span<std::byte> codes
);

/// Whether `codes` are such frames of exactly `raw`; they may be any bytes.
[[nodiscard]] bool decompress(
    Kernels const& kernels, Dtype dtype, std::span<std::byte const> codes, std::span<std::byte> raw
);

}  // namespace spillway
