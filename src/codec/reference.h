// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The plain kernels: one element after the other, by arithmetic.h. The fast ones use them for what
// is rare: the last chunk, and groups that float32 can compute only scaled.
#pragma once

#include "codec/job.h"

namespace spillway {

[[nodiscard]] Kernels const& reference_kernels();

// One element, of any type but u8.
[[nodiscard]] float value_at(Dtype dtype, std::byte const* raw, std::int64_t index);
void put_value(Dtype dtype, std::byte* raw, std::int64_t index, float value);

/// Elements [first, first + count) of a chunk that lies at `raw` and has `room`.
struct Group {
    int first = 0;
    int count = 0;
    int room = 0;
};

/// Whether one element's bits are a number: neither NaN nor infinite.
[[nodiscard]] bool is_number(Dtype dtype, std::byte const* raw, std::int64_t index);

/// Writes the group's range and adds its codes to the chunk's, which are 0 there. Returns the first
/// element of the chunk that cannot be coded; -1: all are.
[[nodiscard]] int encode_group(
    Job const& job,
    arithmetic::Key key,
    Group group,
    std::byte const* raw,
    std::byte* ranges,
    std::byte* codes
);
void decode_group(
    Job const& job, Group group, std::byte const* ranges, std::byte const* codes, std::byte* raw
);

/// A chunk of `count` elements, whole or not.
[[nodiscard]] int encode_chunk(
    Job const& job,
    std::int64_t number,
    int count,
    std::byte const* raw,
    std::byte* ranges,
    std::byte* codes
);
void decode_chunk(
    Job const& job, int count, std::byte const* ranges, std::byte const* codes, std::byte* raw
);

}  // namespace spillway
