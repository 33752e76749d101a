// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A codec turns the bytes of a tensor into fewer bytes and back. Pure functions on spans: no
// threads, no clock, and no allocation but that `lossless` keeps zstd's memory for each thread.
// What an encoded block looks like: docs/formats/coded_block.md.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace spillway {

/// What a tensor's elements are. `u8` stands for every type that only `identity`, `mask` and
/// `lossless` take: bytes as they are.
enum class Dtype : std::uint8_t { f32, bf16, f16, u8 };

[[nodiscard]] std::string_view name_of(Dtype dtype);
[[nodiscard]] std::int64_t size_of(Dtype dtype);

enum class CodecKind : std::uint8_t {
    identity,  ///< the bytes themselves
    affine,    ///< uniform steps from min to max of each group (ActNN, GACT)
    fp8_e4m3,  ///< groups over their largest magnitude, as 8-bit floats (COAT)
    fp8_e5m2,
    nf4,       ///< groups over their largest magnitude, as one of 16 normal quantiles (QLoRA)
    mask,      ///< elements that are 0 or one other value: one bit each, exact
    sign,      ///< whether an element is above 0: one bit each; decodes to 0 and 1
    lossless,  ///< shuffled bytes, compressed; exact, of no known size
};

/// One codec with its parameters. Text form: "affine4", "affine4:group=64,absmax,stochastic",
/// "nf4:group=64", "fp8_e4m3", "mask", "lossless"; what is not named has its default.
struct Codec {
    CodecKind kind = CodecKind::identity;
    std::int32_t bits = 0;    ///< affine: 2, 3, 4, 5, 6 or 8; else 0
    std::int32_t group = 0;   ///< elements that share a range: 32 to 1024, a power of two; or 0
    bool absmax = false;      ///< affine: from minus to plus the largest magnitude (symmetric)
    bool stochastic = false;  ///< affine: rounds up or down at random, right on average

    bool operator==(Codec const&) const = default;
};

[[nodiscard]] std::string to_text(Codec const& codec);
/// Fails   Errc::bad_argument naming the text and what is known: a name, width or group that does
///         not exist
[[nodiscard]] Result<Codec> parse_codec(std::string_view text);

/// What comes back may differ from what went in.
[[nodiscard]] bool is_lossy(Codec const& codec);

/// What a coded block holds: all that is needed to read it, beside its bytes.
struct Encoding {
    Codec codec;
    Dtype dtype = Dtype::f32;
    std::int64_t count = 0;  ///< elements

    bool operator==(Encoding const&) const = default;

    [[nodiscard]] std::int64_t raw_bytes() const { return count * size_of(dtype); }
};

/// Bytes of the coded block, exact, header included; for `lossless` the most that it can be.
///
/// Fails   Errc::bad_argument (parameters that do not exist), Errc::unsupported (this codec does
///         not take this element)
[[nodiscard]] Result<std::int64_t> encoded_bytes(Encoding const& encoding);

/// The most that an element's error can be, as a share of what the codec's group spans: of
/// max - min (affine min-max), or of the largest magnitude (all others). Half a unit in the last
/// place of the dtype comes on top. 0: exact.
[[nodiscard]] double error_bound(Codec const& codec);

/// Writes the coded block and returns its bytes: `encoded_bytes`, or less for `lossless`. Equal
/// `seed` and equal bytes give equal codes, on every machine; only stochastic codecs read it.
///
/// Fails   Errc::unsupported: an element is NaN or infinite, which this codec cannot give back
///         (named with its index), or `mask` found a third value; Errc::bad_argument: a span of
///         another size. `coded` holds nothing then
[[nodiscard]] Result<std::int64_t> encode(
    Encoding const& encoding,
    std::span<std::byte const> raw,
    std::span<std::byte> coded,
    std::uint64_t seed
);

/// Fills `raw` from a coded block of exactly this encoding, with the size that `encode` returned;
/// `coded` may be longer for `lossless`.
///
/// Fails   Errc::corrupt: the header, the size or the checksum is not what `encode` wrote. `raw` is
///         must not be used then
[[nodiscard]] Result<void> decode(
    Encoding const& encoding, std::span<std::byte const> coded, std::span<std::byte> raw
);

/// The plain forms of both, one element after the other: what the fast ones must equal bit by bit.
[[nodiscard]] Result<std::int64_t> encode_reference(
    Encoding const& encoding,
    std::span<std::byte const> raw,
    std::span<std::byte> coded,
    std::uint64_t seed
);
[[nodiscard]] Result<void> decode_reference(
    Encoding const& encoding, std::span<std::byte const> coded, std::span<std::byte> raw
);

}  // namespace spillway
