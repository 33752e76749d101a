// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The header of a coded block, and the checksums that find a changed byte in any part of it.
#pragma once

#include "codec/codec.h"

namespace spillway {

struct BlockHeader {
    std::int64_t codes_bytes = 0;
    std::uint64_t ends_sum = 0;
    std::uint64_t codes_sum = 0;
};

/// Fills the first kHeaderBytes of `coded`.
void write_header(Encoding const& encoding, BlockHeader const& header, std::span<std::byte> coded);

/// Fails   Errc::corrupt: no header of a block of `encoding`, or changed, or of a block that is not
///         as long as `coded` (`lossless`: longer)
[[nodiscard]] Result<BlockHeader> read_header(
    Encoding const& encoding, std::span<std::byte const> coded
);

// For blocks whose ranges and codes a device wrote or will read; not for `lossless`.

/// Writes the header of what lies behind it.
///
/// Order   `coded` is `encoded_bytes` long, and another device has written it to the end, with
///         what it refused in the header's place (layout.h)
/// Fails   Errc::unsupported: it refused an element, which is named
[[nodiscard]] Result<void> seal_block(Encoding const& encoding, std::span<std::byte> coded);

/// Fails   Errc::corrupt: a byte is not what it was when the block was sealed
[[nodiscard]] Result<void> check_block(Encoding const& encoding, std::span<std::byte const> coded);

/// "affine4 of 1000 f32": how error messages name it.
[[nodiscard]] std::string subject_of(Encoding const& encoding);
/// "affine4 of 1000 f32: what".
[[nodiscard]] Error corrupt_block(Encoding const& encoding, std::string_view what);

}  // namespace spillway
