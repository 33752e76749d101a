// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the scalar kernels and the fast ones both are: functions from chunks of elements to packed
// codes and back. A chunk is arithmetic::kChunk elements, the last of a block may be shorter.
#pragma once

#include "codec/arithmetic.h"
#include "codec/codec.h"

namespace spillway {

/// What all chunks of a block share.
struct Job {
    Codec codec;
    Dtype dtype = Dtype::f32;
    arithmetic::Planes planes;
    bool symmetric = false;   ///< symmetric: max alone is stored, and min is -max
    float steps = 0;          ///< from min to max of a group
    float offset = 0;         ///< affine: the code of 0 where `symmetric`
    float top = 0;            ///< affine: the last code; fp8: the largest value
    std::uint64_t seed = 0;   ///< stochastic rounding's
    std::uint32_t other = 0;  ///< mask: the bits of the value that is not 0

    [[nodiscard]] int group() const { return codec.group; }
    [[nodiscard]] std::int64_t element_bytes() const { return size_of(dtype); }
};

[[nodiscard]] Job job_of(Encoding const& encoding, std::uint64_t seed);

/// A run of chunks, each pointer at its first one's bytes.
struct ChunksToEncode {
    std::int64_t first = 0;  ///< number of the first chunk
    std::int64_t count = 0;
    std::byte const* raw = nullptr;
    std::byte* ranges = nullptr;
    std::byte* codes = nullptr;
};
struct ChunksToDecode {
    std::int64_t count = 0;
    std::byte const* ranges = nullptr;
    std::byte const* codes = nullptr;
    std::byte* raw = nullptr;
    bool past_caches = false;  ///< `raw` is more than a cache holds: do not keep it there
};

/// One way to do it.
struct Kernels {
    /// Encodes whole chunks. Returns the first element, counted from these chunks' first, that
    /// cannot be coded; -1: all are.
    std::int64_t (*encode)(Job const& job, ChunksToEncode const& chunks);
    void (*decode)(Job const& job, ChunksToDecode const& chunks);
    /// Copies what is in the caches to where it is not read soon.
    void (*copy_past_caches)(std::byte const* from, std::byte* to, std::size_t bytes);
    /// All first bytes of `count` elements, then all second ones, and so on; and back.
    void (*shuffle)(Dtype dtype, std::int64_t count, std::byte const* raw, std::byte* planes);
    void (*unshuffle)(Dtype dtype, std::int64_t count, std::byte const* planes, std::byte* raw);
};

}  // namespace spillway
