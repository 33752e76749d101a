// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "codec/layout.h"

#include "codec/arithmetic.h"

#include <algorithm>
#include <bit>

namespace spillway {

namespace {

constexpr std::int64_t kValueBytes = 8;   // of mask's other value
constexpr std::int64_t kLengthBytes = 4;  // before each frame of lossless

std::int64_t divided_up(std::int64_t count, std::int64_t by) {
    return (count + by - 1) / by;
}

std::int64_t padded(std::int64_t bytes) {
    return divided_up(bytes, 64) * 64;
}

std::int64_t packed_bytes(std::int64_t count, int bits) {
    std::int64_t const tail = count % arithmetic::kChunk;
    std::int64_t const room = count - tail + (tail == 0 ? 0 : room_for(tail));
    return room / 8 * bits;
}

}  // namespace

int code_bits(Codec const& codec) {
    switch (codec.kind) {
        case CodecKind::affine:
            return codec.bits;
        case CodecKind::fp8_e4m3:
        case CodecKind::fp8_e5m2:
            return 8;
        case CodecKind::nf4:
            return 4;
        case CodecKind::mask:
        case CodecKind::sign:
            return 1;
        case CodecKind::identity:
        case CodecKind::lossless:
            break;
    }
    return 0;
}

std::int64_t range_bytes_of_group(Codec const& codec, Dtype dtype) {
    if (codec.group == 0) {
        return 0;
    }
    bool const two = codec.kind == CodecKind::affine && !codec.absmax;
    return (two ? 2 : 1) * size_of(dtype);
}

int room_for(std::int64_t count) {
    return static_cast<int>(
        std::bit_ceil(static_cast<std::uint32_t>(std::max<std::int64_t>(count, 32)))
    );
}

Layout layout_of(Encoding const& encoding) {
    Codec const& codec = encoding.codec;
    Layout layout;
    if (int const bits = code_bits(codec); bits > 0) {
        layout.codes_bytes = packed_bytes(encoding.count, bits);
    } else {
        layout.codes_bytes = encoding.raw_bytes();
    }
    if (codec.kind == CodecKind::lossless) {
        layout.codes_bytes += divided_up(encoding.raw_bytes(), kFrameBytes) * kLengthBytes;
    }
    if (codec.kind == CodecKind::mask) {
        layout.range_bytes = padded(kValueBytes);
    } else if (codec.group > 0) {
        std::int64_t const groups = divided_up(encoding.count, codec.group);
        layout.range_bytes = padded(groups * range_bytes_of_group(codec, encoding.dtype));
    }
    return layout;
}

}  // namespace spillway
