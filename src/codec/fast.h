// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The kernels with the widest vectors that this machine has, chosen as the program runs. They give
// the plain ones' bits.
#pragma once

#include "codec/job.h"

namespace spillway {

[[nodiscard]] Kernels const& fast_kernels();

namespace fast {

// What each job is made of: codecs that have groups, `mask` and `sign`, `lossless`.
std::int64_t encode_groups(Job const& job, ChunksToEncode const& chunks);
void decode_groups(Job const& job, ChunksToDecode const& chunks);
std::int64_t encode_flags(Job const& job, ChunksToEncode const& chunks);
void decode_flags(Job const& job, ChunksToDecode const& chunks);
void copy_past_caches(std::byte const* from, std::byte* to, std::size_t bytes);
void shuffle(Dtype dtype, std::int64_t count, std::byte const* raw, std::byte* planes);
void unshuffle(Dtype dtype, std::int64_t count, std::byte const* planes, std::byte* raw);

}  // namespace fast

}  // namespace spillway
