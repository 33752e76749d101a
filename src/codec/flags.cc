// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One bit an element: `mask` and `sign`.

// clang-format off: each target includes this file anew by the third line of these
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/flags.cc"
#include <hwy/foreach_target.h>
// clang-format on

#include "codec/fast.h"
#include "codec/lanes-inl.h"
#include "codec/reference.h"

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace spillway::HWY_NAMESPACE {
namespace {
#if SPILLWAY_CODEC_PLAIN

std::int64_t encode_flags(Job const& job, ChunksToEncode const& chunks) {
    return reference_kernels().encode(job, chunks);
}
void decode_flags(Job const& job, ChunksToDecode const& chunks) {
    reference_kernels().decode(job, chunks);
}

#else

using arithmetic::kChunk;

constexpr int kWords = kChunk / 32;

/// Words of flags, 1 where an element is not 0; `bad` is not 0 where one is neither 0 nor `other`.
struct MaskFlags {
    W other;

    template <Dtype kDtype>
    static MaskFlags of(Job const& job) {
        return {all(job.other)};
    }
    HWY_INLINE W flag(W bits, W& bad) const {
        W const one = all(1U);
        W const is_zero = hn::VecFromMask(Words(), hn::Eq(bits, hn::Zero(Words())));
        W const is_other = hn::VecFromMask(Words(), hn::Eq(bits, other));
        bad = hn::Or(bad, hn::AndNot(hn::Or(is_zero, is_other), one));
        return hn::AndNot(is_zero, one);
    }
};

/// 1 where an element is above 0; `bad` is not 0 where one is no number.
struct SignFlags {
    W exponent;
    W sign;

    template <Dtype kDtype>
    static SignFlags of(Job const& /*job*/) {
        constexpr int kSign = kDtype == Dtype::f32 ? 31 : 15;
        constexpr std::uint32_t kExponent = kDtype == Dtype::f32    ? 0x7f800000U
                                            : kDtype == Dtype::bf16 ? 0x7f80U
                                                                    : 0x7c00U;
        return {all(kExponent), all(1U << kSign)};
    }
    HWY_INLINE W flag(W bits, W& bad) const {
        W const one = all(1U);
        W const none = hn::VecFromMask(Words(), hn::Eq(hn::And(bits, exponent), exponent));
        bad = hn::Or(bad, none);
        W const zero = hn::VecFromMask(Words(), hn::Eq(bits, hn::Zero(Words())));
        W const below = hn::VecFromMask(Words(), hn::Eq(hn::And(bits, sign), sign));
        return hn::AndNot(hn::Or(zero, below), one);
    }
};

/// Whether all elements of the chunk have a flag.
template <Dtype kDtype, typename Flags>
HWY_INLINE bool encode_one(Flags const& flags, std::byte const* raw, std::byte* codes) {
    W bad = hn::Zero(Words());
    for (int word = 0; word < kWords; word += kLanes) {
        W packed = hn::Zero(Words());
        for (int bit = 0; bit < 32; ++bit) {
            W const flag = flags.flag(load_bits<kDtype>(raw, bit * kWords + word), bad);
            packed = hn::Or(packed, hn::ShiftLeftSame(flag, bit));
        }
        hn::StoreU(packed, Words(), reinterpret_cast<std::uint32_t*>(codes) + word);
    }
    return hn::AllTrue(Words(), hn::Eq(bad, hn::Zero(Words())));
}

template <Dtype kDtype, typename Flags>
std::int64_t encode_all(Job const& job, ChunksToEncode const& chunks) {
    Flags const flags = Flags::template of<kDtype>(job);
    for (std::int64_t i = 0; i < chunks.count; ++i) {
        std::byte const* const raw = chunks.raw + i * kChunk * size_of(kDtype);
        std::byte* const codes = chunks.codes + i * kWords * 4;
        if (!encode_one<kDtype>(flags, raw, codes)) {
            return i * kChunk + encode_chunk(job, 0, kChunk, raw, nullptr, codes);
        }
    }
    return -1;
}

template <Dtype kDtype>
std::int64_t encode_kind(Job const& job, ChunksToEncode const& chunks) {
    if constexpr (kDtype != Dtype::u8) {
        if (job.codec.kind == CodecKind::sign) {
            return encode_all<kDtype, SignFlags>(job, chunks);
        }
    }
    return encode_all<kDtype, MaskFlags>(job, chunks);
}

template <Dtype kDtype>
void decode_all(Job const& job, ChunksToDecode const& chunks) {
    W const other = all(job.other);
    W const one = all(1U);
    for (std::int64_t i = 0; i < chunks.count; ++i) {
        auto const* const codes =
            reinterpret_cast<std::uint32_t const*>(chunks.codes + i * kWords * 4);
        std::byte* const raw = chunks.raw + i * kChunk * size_of(kDtype);
        for (int bit = 0; bit < 32; ++bit) {
            for (int word = 0; word < kWords; word += kLanes) {
                W const flag = codes_in(codes + word, bit, one);
                W const mask = hn::Sub(hn::Zero(Words()), flag);
                store_bits<kDtype, false>(hn::And(mask, other), raw, bit * kWords + word);
            }
        }
    }
}

std::int64_t encode_flags(Job const& job, ChunksToEncode const& chunks) {
    switch (job.dtype) {
        case Dtype::f32:
            return encode_kind<Dtype::f32>(job, chunks);
        case Dtype::bf16:
            return encode_kind<Dtype::bf16>(job, chunks);
        case Dtype::f16:
            return encode_kind<Dtype::f16>(job, chunks);
        case Dtype::u8:
            break;
    }
    return encode_kind<Dtype::u8>(job, chunks);
}

void decode_flags(Job const& job, ChunksToDecode const& chunks) {
    switch (job.dtype) {
        case Dtype::f32:
            return decode_all<Dtype::f32>(job, chunks);
        case Dtype::bf16:
        case Dtype::f16:
            return decode_all<Dtype::bf16>(job, chunks);
        case Dtype::u8:
            break;
    }
    return decode_all<Dtype::u8>(job, chunks);
}

#endif  // !SPILLWAY_CODEC_PLAIN
}  // namespace
}  // namespace spillway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::fast {

HWY_EXPORT(encode_flags);
HWY_EXPORT(decode_flags);

std::int64_t encode_flags(Job const& job, ChunksToEncode const& chunks) {
    return HWY_DYNAMIC_DISPATCH(encode_flags)(job, chunks);
}
void decode_flags(Job const& job, ChunksToDecode const& chunks) {
    HWY_DYNAMIC_DISPATCH(decode_flags)(job, chunks);
}

}  // namespace spillway::fast
#endif  // HWY_ONCE
