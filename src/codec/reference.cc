// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "codec/reference.h"

#include "codec/layout.h"

#include <algorithm>
#include <cstring>

namespace spillway {

namespace {

using arithmetic::Key;
using arithmetic::Position;
using arithmetic::Scale;

std::uint32_t bits_at(Dtype dtype, std::byte const* raw, std::int64_t index) {
    if (dtype == Dtype::f32) {
        std::uint32_t bits = 0;
        std::memcpy(&bits, raw + index * 4, sizeof bits);
        return bits;
    }
    if (dtype == Dtype::u8) {
        return static_cast<std::uint32_t>(raw[index]);
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, raw + index * 2, sizeof bits);
    return bits;
}

void put_bits(Dtype dtype, std::byte* raw, std::int64_t index, std::uint32_t bits) {
    if (dtype == Dtype::f32) {
        std::memcpy(raw + index * 4, &bits, sizeof bits);
    } else if (dtype == Dtype::u8) {
        raw[index] = static_cast<std::byte>(bits);
    } else {
        auto const half = static_cast<std::uint16_t>(bits);
        std::memcpy(raw + index * 2, &half, sizeof half);
    }
}

/// The words of one plane after those of the planes before it.
void add_code(std::byte* plane, int width, int room, int index, std::uint32_t code) {
    Position const at = arithmetic::position_of(index, width, room);
    std::uint32_t word = 0;
    std::memcpy(&word, plane + at.word * 4, sizeof word);
    word |= code << at.shift;
    std::memcpy(plane + at.word * 4, &word, sizeof word);
}

std::uint32_t code_in(std::byte const* plane, int width, int room, int index) {
    Position const at = arithmetic::position_of(index, width, room);
    std::uint32_t word = 0;
    std::memcpy(&word, plane + at.word * 4, sizeof word);
    return (word >> at.shift) & ((1U << width) - 1);
}

void put_code(Job const& job, std::byte* codes, int room, int index, std::uint32_t code) {
    auto const [low, high] = job.planes;
    add_code(codes, low, room, index, code & ((1U << low) - 1));
    if (high > 0) {
        std::byte* const second = codes + arithmetic::words_of(low, room) * 4;
        add_code(second, high, room, index, code >> low);
    }
}

std::uint32_t code_at(Job const& job, std::byte const* codes, int room, int index) {
    auto const [low, high] = job.planes;
    std::uint32_t code = code_in(codes, low, room, index);
    if (high > 0) {
        std::byte const* const second = codes + arithmetic::words_of(low, room) * 4;
        code |= code_in(second, high, room, index) << low;
    }
    return code;
}

std::uint32_t code_of(Job const& job, Scale const& scale, float value, float rounding) {
    switch (job.codec.kind) {
        case CodecKind::affine:
            return arithmetic::affine_code(value, scale, job.offset, job.top, rounding);
        case CodecKind::fp8_e4m3:
            return arithmetic::fp8_code<3, 7>(value, scale, job.top);
        case CodecKind::fp8_e5m2:
            return arithmetic::fp8_code<2, 15>(value, scale, job.top);
        default:
            return arithmetic::nf4_code(value, scale);
    }
}

float value_of(Job const& job, Scale const& scale, std::uint32_t code) {
    switch (job.codec.kind) {
        case CodecKind::affine:
            return arithmetic::affine_value(code, scale, job.offset);
        case CodecKind::fp8_e4m3:
            return arithmetic::fp8_value<3, 7>(code, scale);
        case CodecKind::fp8_e5m2:
            return arithmetic::fp8_value<2, 15>(code, scale);
        default:
            return arithmetic::nf4_value(code, scale);
    }
}

/// The first of elements [first, first + count) that is no number; -1: all are.
int find_no_number(Dtype dtype, std::byte const* raw, int first, int count) {
    for (int i = first; i < first + count; ++i) {
        if (!is_number(dtype, raw, i)) {
            return i;
        }
    }
    return -1;
}

int encode_mask(Job const& job, int count, std::byte const* raw, std::byte* codes) {
    for (int i = 0; i < count; ++i) {
        std::uint32_t const bits = bits_at(job.dtype, raw, i);
        if (bits != 0 && bits != job.other) {
            return i;
        }
        put_code(job, codes, room_for(count), i, bits == 0 ? 0 : 1);
    }
    return -1;
}

int encode_sign(Job const& job, int count, std::byte const* raw, std::byte* codes) {
    for (int i = 0; i < count; ++i) {
        if (!is_number(job.dtype, raw, i)) {
            return i;
        }
        put_code(job, codes, room_for(count), i, value_at(job.dtype, raw, i) > 0 ? 1 : 0);
    }
    return -1;
}

void decode_bits(Job const& job, int count, std::byte const* codes, std::byte* raw) {
    for (int i = 0; i < count; ++i) {
        bool const set = code_at(job, codes, room_for(count), i) != 0;
        put_bits(job.dtype, raw, i, set ? job.other : 0);
    }
}

std::int64_t code_bytes(Job const& job, int room) {
    return std::int64_t{room} / 8 * (job.planes.low + job.planes.high);
}

std::int64_t encode_chunks(Job const& job, ChunksToEncode const& chunks) {
    constexpr int kCount = arithmetic::kChunk;
    std::int64_t const groups = job.group() == 0 ? 0 : kCount / job.group();
    std::int64_t const range_bytes = groups * range_bytes_of_group(job.codec, job.dtype);
    for (std::int64_t i = 0; i < chunks.count; ++i) {
        int const bad = encode_chunk(
            job,
            chunks.first + i,
            kCount,
            chunks.raw + i * kCount * job.element_bytes(),
            chunks.ranges + i * range_bytes,
            chunks.codes + i * code_bytes(job, kCount)
        );
        if (bad >= 0) {
            return i * kCount + bad;
        }
    }
    return -1;
}

void decode_chunks(Job const& job, ChunksToDecode const& chunks) {
    constexpr int kCount = arithmetic::kChunk;
    std::int64_t const groups = job.group() == 0 ? 0 : kCount / job.group();
    std::int64_t const range_bytes = groups * range_bytes_of_group(job.codec, job.dtype);
    for (std::int64_t i = 0; i < chunks.count; ++i) {
        decode_chunk(
            job,
            kCount,
            chunks.ranges + i * range_bytes,
            chunks.codes + i * code_bytes(job, kCount),
            chunks.raw + i * kCount * job.element_bytes()
        );
    }
}

void copy(std::byte const* from, std::byte* to, std::size_t bytes) {
    std::memcpy(to, from, bytes);
}

void shuffle(Dtype dtype, std::int64_t count, std::byte const* raw, std::byte* planes) {
    std::int64_t const size = size_of(dtype);
    for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t j = 0; j < size; ++j) {
            planes[j * count + i] = raw[i * size + j];
        }
    }
}

void unshuffle(Dtype dtype, std::int64_t count, std::byte const* planes, std::byte* raw) {
    std::int64_t const size = size_of(dtype);
    for (std::int64_t i = 0; i < count; ++i) {
        for (std::int64_t j = 0; j < size; ++j) {
            raw[i * size + j] = planes[j * count + i];
        }
    }
}

}  // namespace

float value_at(Dtype dtype, std::byte const* raw, std::int64_t index) {
    std::uint32_t const bits = bits_at(dtype, raw, index);
    switch (dtype) {
        case Dtype::bf16:
            return arithmetic::from_bfloat(bits);
        case Dtype::f16:
            return arithmetic::from_half(bits);
        case Dtype::f32:
        case Dtype::u8:
            break;
    }
    return arithmetic::float_of(bits);
}

void put_value(Dtype dtype, std::byte* raw, std::int64_t index, float value) {
    std::uint32_t bits = arithmetic::bits_of(value);
    if (dtype == Dtype::bf16) {
        bits = arithmetic::to_bfloat(value);
    } else if (dtype == Dtype::f16) {
        bits = arithmetic::to_half(value);
    }
    put_bits(dtype, raw, index, bits);
}

Job job_of(Encoding const& encoding, std::uint64_t seed) {
    Codec const& codec = encoding.codec;
    Job job;
    job.codec = codec;
    job.dtype = encoding.dtype;
    job.seed = seed;
    job.planes = arithmetic::planes_of(code_bits(codec));
    job.symmetric = codec.kind != CodecKind::affine || codec.absmax;
    switch (codec.kind) {
        case CodecKind::affine: {
            int const half = (1 << (codec.bits - 1)) - 1;  // codes on each side of absmax's 0
            int const top = codec.absmax ? 2 * half : (1 << codec.bits) - 1;
            job.steps = static_cast<float>(top);
            job.top = static_cast<float>(top);
            job.offset = static_cast<float>(codec.absmax ? half : 0);
            break;
        }
        case CodecKind::fp8_e4m3:
        case CodecKind::fp8_e5m2:
            job.top = codec.kind == CodecKind::fp8_e4m3 ? 448.0F : 57344.0F;
            job.steps = 2 * job.top;
            break;
        case CodecKind::nf4:
            job.steps = 2;
            break;
        case CodecKind::sign: {
            put_value(job.dtype, reinterpret_cast<std::byte*>(&job.other), 0, 1.0F);
            break;
        }
        case CodecKind::identity:
        case CodecKind::mask:
        case CodecKind::lossless:
            break;
    }
    return job;
}

bool is_number(Dtype dtype, std::byte const* raw, std::int64_t index) {
    constexpr std::uint32_t kExponents[] = {0x7f800000U, 0x7f80U, 0x7c00U, 0x100U};
    std::uint32_t const exponent = kExponents[static_cast<std::size_t>(dtype)];
    return (bits_at(dtype, raw, index) & exponent) != exponent;
}

int encode_group(
    Job const& job, Key key, Group group, std::byte const* raw, std::byte* ranges, std::byte* codes
) {
    int const bad = find_no_number(job.dtype, raw, group.first, group.count);
    if (bad >= 0) {
        return bad;
    }
    float low = value_at(job.dtype, raw, group.first);
    float high = low;
    for (int i = group.first + 1; i < group.first + group.count; ++i) {
        float const value = value_at(job.dtype, raw, i);
        low = value < low ? value : low;
        high = value > high ? value : high;
    }
    low += 0.0F;  // of -0 makes 0, so that the order of elements does not matter
    high += 0.0F;
    if (job.symmetric) {
        high = arithmetic::magnitude_of(low, high);
        low = -high;
        put_value(job.dtype, ranges, 0, high);
    } else {
        put_value(job.dtype, ranges, 0, low);
        put_value(job.dtype, ranges, 1, high);
    }
    Scale const scale = arithmetic::scale_of(low, high, job.steps, job.symmetric);
    for (int i = group.first; i < group.first + group.count; ++i) {
        float const rounding = job.codec.stochastic ? arithmetic::random_rounding(key, i) : 0.5F;
        float const value = value_at(job.dtype, raw, i);
        put_code(job, codes, group.room, i, code_of(job, scale, value, rounding));
    }
    return -1;
}

void decode_group(
    Job const& job, Group group, std::byte const* ranges, std::byte const* codes, std::byte* raw
) {
    float const first = value_at(job.dtype, ranges, 0);
    float const high = job.symmetric ? first : value_at(job.dtype, ranges, 1);
    float const low = job.symmetric ? -first : first;
    Scale const scale = arithmetic::scale_of(low, high, job.steps, job.symmetric);
    for (int i = group.first; i < group.first + group.count; ++i) {
        float const value = value_of(job, scale, code_at(job, codes, group.room, i));
        put_value(job.dtype, raw, i, value);
    }
}

int encode_chunk(
    Job const& job,
    std::int64_t number,
    int count,
    std::byte const* raw,
    std::byte* ranges,
    std::byte* codes
) {
    int const room = room_for(count);
    std::fill_n(codes, code_bytes(job, room), std::byte{});
    if (job.codec.kind == CodecKind::mask) {
        return encode_mask(job, count, raw, codes);
    }
    if (job.codec.kind == CodecKind::sign) {
        return encode_sign(job, count, raw, codes);
    }
    Key const key = arithmetic::key_of(job.seed, number);
    for (int first = 0; first < count; first += job.group()) {
        Group const group{first, std::min(job.group(), count - first), room};
        int const bad = encode_group(job, key, group, raw, ranges, codes);
        if (bad >= 0) {
            return bad;
        }
        ranges += range_bytes_of_group(job.codec, job.dtype);
    }
    return -1;
}

void decode_chunk(
    Job const& job, int count, std::byte const* ranges, std::byte const* codes, std::byte* raw
) {
    if (job.codec.kind == CodecKind::mask || job.codec.kind == CodecKind::sign) {
        decode_bits(job, count, codes, raw);
        return;
    }
    int const room = room_for(count);
    for (int first = 0; first < count; first += job.group()) {
        Group const group{first, std::min(job.group(), count - first), room};
        decode_group(job, group, ranges, codes, raw);
        ranges += range_bytes_of_group(job.codec, job.dtype);
    }
}

Kernels const& reference_kernels() {
    static constexpr Kernels kKernels{encode_chunks, decode_chunks, copy, shuffle, unshuffle};
    return kKernels;
}

}  // namespace spillway
