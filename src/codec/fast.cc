// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "codec/fast.h"

namespace spillway {

namespace {

std::int64_t encode_chunks(Job const& job, ChunksToEncode const& chunks) {
    return job.group() > 0 ? fast::encode_groups(job, chunks) : fast::encode_flags(job, chunks);
}

void decode_chunks(Job const& job, ChunksToDecode const& chunks) {
    return job.group() > 0 ? fast::decode_groups(job, chunks) : fast::decode_flags(job, chunks);
}

}  // namespace

Kernels const& fast_kernels() {
    static constexpr Kernels kKernels{
        encode_chunks, decode_chunks, fast::copy_past_caches, fast::shuffle, fast::unshuffle};
    return kKernels;
}

}  // namespace spillway
