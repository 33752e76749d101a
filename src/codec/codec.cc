// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "codec/codec.h"

#include "codec/fast.h"
#include "codec/job.h"
#include "codec/layout.h"
#include "codec/reference.h"
#include "codec/run.h"

#include <fmt/format.h>

#include <array>
#include <bit>

namespace spillway {

namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 48;

/// What the roundings of float32 add to half a step, as a factor.
constexpr double kSlack = 1.0 + 1.0 / 4096;

bool has_groups(CodecKind kind) {
    return kind == CodecKind::affine || kind == CodecKind::fp8_e4m3 ||
           kind == CodecKind::fp8_e5m2 || kind == CodecKind::nf4;
}

bool is_width(std::int32_t bits) {
    return (bits >= 2 && bits <= 6) || bits == 8;
}

Result<void> check(Codec const& codec) {
    bool const affine = codec.kind == CodecKind::affine;
    if (affine ? !is_width(codec.bits) : codec.bits != 0) {
        return Error{
            Errc::bad_argument,
            fmt::format("no codec has {} bits; affine has 2, 3, 4, 5, 6 or 8", codec.bits),
            to_text(codec)};
    }
    bool const power = codec.group > 0 && std::has_single_bit(static_cast<unsigned>(codec.group));
    bool const fits = power && codec.group >= 32 && codec.group <= arithmetic::kChunk;
    if (has_groups(codec.kind) ? !fits : codec.group != 0) {
        return Error{
            Errc::bad_argument,
            fmt::format("no group of {}; groups are 32, 64, 128, 256, 512 or 1024", codec.group),
            to_text(codec)};
    }
    if (!affine && (codec.absmax || codec.stochastic)) {
        return Error{
            Errc::bad_argument, "only affine codecs take absmax and stochastic", to_text(codec)};
    }
    return {};
}

bool takes(CodecKind kind, Dtype dtype) {
    return dtype != Dtype::u8 || kind == CodecKind::identity || kind == CodecKind::mask ||
           kind == CodecKind::lossless;
}

}  // namespace

std::string_view name_of(Dtype dtype) {
    constexpr std::array<std::string_view, 4> kNames{"f32", "bf16", "f16", "u8"};
    return kNames[static_cast<std::size_t>(dtype)];
}

std::int64_t size_of(Dtype dtype) {
    constexpr std::array<std::int64_t, 4> kSizes{4, 2, 2, 1};
    return kSizes[static_cast<std::size_t>(dtype)];
}

bool is_lossy(Codec const& codec) {
    return has_groups(codec.kind) || codec.kind == CodecKind::sign;
}

Result<std::int64_t> encoded_bytes(Encoding const& encoding) {
    Result<void> const known = check(encoding.codec);
    if (!known.ok()) {
        return known.error();
    }
    if (encoding.count < 0 || encoding.count > kMostElements) {
        return Error{
            Errc::bad_argument,
            fmt::format("a tensor cannot have {} elements", encoding.count),
            to_text(encoding.codec)};
    }
    if (!takes(encoding.codec.kind, encoding.dtype)) {
        return Error{
            Errc::unsupported,
            fmt::format("does not take elements of {}", name_of(encoding.dtype)),
            to_text(encoding.codec)};
    }
    return layout_of(encoding).total_bytes();
}

double error_bound(Codec const& codec) {
    switch (codec.kind) {
        case CodecKind::affine: {
            double const share = codec.absmax ? (1 << (codec.bits - 1)) - 1 : (1 << codec.bits) - 1;
            return (codec.stochastic ? 1.0 : 0.5) / share * kSlack;
        }
        case CodecKind::fp8_e4m3:
            return 16.0 / 448 * kSlack;  // half of the step between 256 and 448
        case CodecKind::fp8_e5m2:
            return 4096.0 / 57344 * kSlack;
        case CodecKind::nf4:  // half of the widest gap, which is at -1
            return (1 + static_cast<double>(arithmetic::nf4_level(1))) / 2 * kSlack;
        case CodecKind::sign:
            return 1;
        case CodecKind::identity:
        case CodecKind::mask:
        case CodecKind::lossless:
            break;
    }
    return 0;
}

Result<std::int64_t> encode(
    Encoding const& encoding,
    std::span<std::byte const> raw,
    std::span<std::byte> coded,
    std::uint64_t seed
) {
    return encode_with(fast_kernels(), encoding, raw, coded, seed);
}

Result<void> decode(
    Encoding const& encoding, std::span<std::byte const> coded, std::span<std::byte> raw
) {
    return decode_with(fast_kernels(), encoding, coded, raw);
}

Result<std::int64_t> encode_reference(
    Encoding const& encoding,
    std::span<std::byte const> raw,
    std::span<std::byte> coded,
    std::uint64_t seed
) {
    return encode_with(reference_kernels(), encoding, raw, coded, seed);
}

Result<void> decode_reference(
    Encoding const& encoding, std::span<std::byte const> coded, std::span<std::byte> raw
) {
    return decode_with(reference_kernels(), encoding, coded, raw);
}

}  // namespace spillway
