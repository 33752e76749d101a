// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Whole blocks by given kernels: checks, header, checksums, and the codecs that need no kernel.
#pragma once

#include "codec/job.h"

namespace spillway {

[[nodiscard]] Result<std::int64_t> encode_with(
    Kernels const& kernels,
    Encoding const& encoding,
    std::span<std::byte const> raw,
    std::span<std::byte> coded,
    std::uint64_t seed
);

[[nodiscard]] Result<void> decode_with(
    Kernels const& kernels,
    Encoding const& encoding,
    std::span<std::byte const> coded,
    std::span<std::byte> raw
);

}  // namespace spillway
