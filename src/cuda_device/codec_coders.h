// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Every codec that has kernels, for every element that it takes: a type each, chosen by an
// encoding.
#pragma once

#include "cuda_device/codec_plain.h"
#include "cuda_device/codec_whole.h"

namespace spillway::lanes {

/// Chunks of groups. Only the whole way knows the planes' widths; `Plain` is one for all of them.
template <typename CodingOf, typename ValueOf, int kLow, int kHigh>
struct GroupCoder {
    using Coding = CodingOf;
    using Value = ValueOf;
    using Plain = GroupCoder<Coding, Value, 8, 0>;

    template <bool kWhole, typename Warp>
    SPILLWAY_ANYWHERE static void encode(
        Warp const& warp, Task const& task, ToEncode const& chunk
    ) {
        if constexpr (kWhole) {
            encode_whole<Coding, Value, kLow, kHigh>(warp, task, chunk);
        } else {
            encode_plain<Coding, Value>(warp, task, chunk);
        }
    }
    template <bool kWhole, typename Warp>
    SPILLWAY_ANYWHERE static void decode(
        Warp const& warp, Task const& task, ToDecode const& chunk
    ) {
        if constexpr (kWhole) {
            decode_whole<Coding, Value, kLow, kHigh>(warp, task, chunk);
        } else {
            decode_plain<Coding, Value>(warp, task, chunk);
        }
    }
};
template <typename CodingOf, typename ValueOf>
struct BitCoder {
    using Coding = CodingOf;
    using Value = ValueOf;
    using Plain = BitCoder;

    template <bool kWhole, typename Warp>
    SPILLWAY_ANYWHERE static void encode(
        Warp const& warp, Task const& task, ToEncode const& chunk
    ) {
        if constexpr (kWhole) {
            encode_whole_bits<Coding, Value>(warp, chunk);
        } else {
            encode_plain_bits<Coding, Value>(warp, task, chunk);
        }
    }
    template <bool kWhole, typename Warp>
    SPILLWAY_ANYWHERE static void decode(
        Warp const& warp, Task const& task, ToDecode const& chunk
    ) {
        if constexpr (kWhole) {
            decode_whole_bits<Value>(warp, task, chunk);
        } else {
            decode_plain_bits<Value>(warp, task, chunk);
        }
    }
};

template <typename Value, typename Visit>
bool visit_affine(Job const& job, Visit const& visit) {
    switch (job.codec.bits) {
        case 2:
            return visit(GroupCoder<Affine, Value, 2, 0>{}), true;
        case 3:
            return visit(GroupCoder<Affine, Value, 2, 1>{}), true;
        case 4:
            return visit(GroupCoder<Affine, Value, 4, 0>{}), true;
        case 5:
            return visit(GroupCoder<Affine, Value, 4, 1>{}), true;
        case 6:
            return visit(GroupCoder<Affine, Value, 4, 2>{}), true;
        default:
            return visit(GroupCoder<Affine, Value, 8, 0>{}), true;
    }
}
template <typename Value, typename Visit>
bool visit_numbers(Job const& job, Visit const& visit) {
    switch (job.codec.kind) {
        case CodecKind::affine:
            return visit_affine<Value>(job, visit);
        case CodecKind::fp8_e4m3:
            return visit(GroupCoder<Fp8<3, 7>, Value, 8, 0>{}), true;
        case CodecKind::fp8_e5m2:
            return visit(GroupCoder<Fp8<2, 15>, Value, 8, 0>{}), true;
        case CodecKind::nf4:
            return visit(GroupCoder<Nf4, Value, 4, 0>{}), true;
        case CodecKind::mask:
            return visit(BitCoder<Mask, Value>{}), true;
        case CodecKind::sign:
            return visit(BitCoder<Sign, Value>{}), true;
        case CodecKind::identity:
        case CodecKind::lossless:
            break;
    }
    return false;
}

/// Calls `visit` with the coder of `job`, whose encoding exists; false: it has none.
template <typename Visit>
bool visit_coder(Job const& job, Visit const& visit) {
    switch (job.dtype) {
        case Dtype::f32:
            return visit_numbers<F32>(job, visit);
        case Dtype::bf16:
            return visit_numbers<Bf16>(job, visit);
        case Dtype::f16:
            return visit_numbers<F16>(job, visit);
        case Dtype::u8:
            break;
    }
    return job.codec.kind == CodecKind::mask && (visit(BitCoder<Mask, U8>{}), true);
}

}  // namespace spillway::lanes
