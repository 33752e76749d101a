// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Bytes that are only moved: past the caches, and, for `lossless`, into planes and back.

// clang-format off: each target includes this file anew by the third line of these
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/shuffle.cc"
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

std::int64_t shuffle_some(Dtype, std::int64_t, std::uint8_t const*, std::uint8_t*) {
    return 0;
}
std::int64_t unshuffle_some(Dtype, std::int64_t, std::uint8_t const*, std::uint8_t*) {
    return 0;
}

std::size_t copy_some(std::uint8_t const*, std::uint8_t*, std::size_t) {
    return 0;
}

#else

using Bytes = hn::ScalableTag<std::uint8_t>;
using B = hn::Vec<Bytes>;

/// As many bytes as fill vectors, where `to` is aligned to them. Returns how many those were.
std::size_t copy_some(std::uint8_t const* from, std::uint8_t* to, std::size_t bytes) {
    Bytes const tag;
    std::size_t const lanes = hn::Lanes(tag);
    if (reinterpret_cast<std::uintptr_t>(to) % lanes != 0) {
        return 0;
    }
    std::size_t const end = bytes / lanes * lanes;
    for (std::size_t i = 0; i < end; i += lanes) {
        hn::Stream(hn::LoadU(tag, from + i), tag, to + i);
    }
    hwy::FlushStream();
    return end;
}

/// As many elements as fill vectors. Returns how many those were.
std::int64_t shuffle_some(
    Dtype dtype, std::int64_t count, std::uint8_t const* raw, std::uint8_t* planes
) {
    Bytes const tag;
    auto const lanes = static_cast<std::int64_t>(hn::Lanes(tag));
    std::int64_t const end = count / lanes * lanes;
    for (std::int64_t i = 0; i < end; i += lanes) {
        B a = hn::Zero(tag);
        B b = hn::Zero(tag);
        if (dtype == Dtype::f32) {
            B c = hn::Zero(tag);
            B d = hn::Zero(tag);
            hn::LoadInterleaved4(tag, raw + 4 * i, a, b, c, d);
            hn::StoreU(c, tag, planes + 2 * count + i);
            hn::StoreU(d, tag, planes + 3 * count + i);
        } else {
            hn::LoadInterleaved2(tag, raw + 2 * i, a, b);
        }
        hn::StoreU(a, tag, planes + i);
        hn::StoreU(b, tag, planes + count + i);
    }
    return end;
}

std::int64_t unshuffle_some(
    Dtype dtype, std::int64_t count, std::uint8_t const* planes, std::uint8_t* raw
) {
    Bytes const tag;
    auto const lanes = static_cast<std::int64_t>(hn::Lanes(tag));
    std::int64_t const end = count / lanes * lanes;
    for (std::int64_t i = 0; i < end; i += lanes) {
        B const a = hn::LoadU(tag, planes + i);
        B const b = hn::LoadU(tag, planes + count + i);
        if (dtype == Dtype::f32) {
            B const c = hn::LoadU(tag, planes + 2 * count + i);
            B const d = hn::LoadU(tag, planes + 3 * count + i);
            hn::StoreInterleaved4(a, b, c, d, tag, raw + 4 * i);
        } else {
            hn::StoreInterleaved2(a, b, tag, raw + 2 * i);
        }
    }
    return end;
}

#endif  // !SPILLWAY_CODEC_PLAIN
}  // namespace
}  // namespace spillway::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace spillway::fast {

HWY_EXPORT(copy_some);
HWY_EXPORT(shuffle_some);
HWY_EXPORT(unshuffle_some);

void copy_past_caches(std::byte const* from, std::byte* to, std::size_t bytes) {
    std::size_t const done = HWY_DYNAMIC_DISPATCH(copy_some
    )(reinterpret_cast<std::uint8_t const*>(from), reinterpret_cast<std::uint8_t*>(to), bytes);
    std::memcpy(to + done, from + done, bytes - done);
}

void shuffle(Dtype dtype, std::int64_t count, std::byte const* raw, std::byte* planes) {
    std::int64_t const size = size_of(dtype);
    std::int64_t const done = size == 1 ? 0
                                        : HWY_DYNAMIC_DISPATCH(shuffle_some
                                          )(dtype,
                                            count,
                                            reinterpret_cast<std::uint8_t const*>(raw),
                                            reinterpret_cast<std::uint8_t*>(planes));
    for (std::int64_t i = done; i < count; ++i) {
        for (std::int64_t j = 0; j < size; ++j) {
            planes[j * count + i] = raw[i * size + j];
        }
    }
}

void unshuffle(Dtype dtype, std::int64_t count, std::byte const* planes, std::byte* raw) {
    std::int64_t const size = size_of(dtype);
    std::int64_t const done = size == 1 ? 0
                                        : HWY_DYNAMIC_DISPATCH(unshuffle_some
                                          )(dtype,
                                            count,
                                            reinterpret_cast<std::uint8_t const*>(planes),
                                            reinterpret_cast<std::uint8_t*>(raw));
    for (std::int64_t i = done; i < count; ++i) {
        for (std::int64_t j = 0; j < size; ++j) {
            raw[i * size + j] = planes[j * count + i];
        }
    }
}

}  // namespace spillway::fast
#endif  // HWY_ONCE
