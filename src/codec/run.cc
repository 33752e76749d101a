// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "codec/run.h"

#include "base/hash.h"
#include "codec/block.h"
#include "codec/layout.h"
#include "codec/lossless.h"
#include "codec/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace spillway {

namespace {

using arithmetic::kChunk;

/// Chunks between two sums of their codes, which then are still in the cache.
constexpr std::int64_t kChunksAtOnce = 16;
/// From so many raw bytes on what is written is not kept in the caches.
constexpr std::int64_t kPastCachesBytes = std::int64_t{4} << 20;

/// What one chunk of a job takes in each part.
struct Strides {
    std::int64_t raw = 0;
    std::int64_t ranges = 0;
    std::int64_t codes = 0;

    explicit Strides(Job const& job)
        : raw(kChunk * job.element_bytes()),
          ranges(
              job.group() == 0 ? 0
                               : kChunk / job.group() * range_bytes_of_group(job.codec, job.dtype)
          ),
          codes(kChunk / 8 * code_bits(job.codec)) {}
};

Error bad_element(Encoding const& encoding, std::span<std::byte const> raw, std::int64_t index) {
    bool const number = is_number(encoding.dtype, raw.data(), index);
    return {
        Errc::unsupported,
        encoding.codec.kind == CodecKind::mask
            ? fmt::format("element {} is a third value; a mask has 0 and one other", index)
            : fmt::format("element {} is {}", index, number ? "no number" : "NaN or infinite"),
        subject_of(encoding)};
}

/// The bits of the first element that is not 0; 0: all are.
std::uint32_t first_other(Dtype dtype, std::span<std::byte const> raw) {
    auto const* const end = raw.data() + raw.size();
    auto const* at = raw.data();
    std::uint64_t word = 0;
    while (end - at >= 8 && (std::memcpy(&word, at, 8), word == 0)) {
        at += 8;
    }
    at = std::find_if(at, end, [](std::byte byte) { return byte != std::byte{}; });
    if (at == end) {
        return 0;
    }
    std::int64_t const size = size_of(dtype);
    std::uint32_t bits = 0;
    std::memcpy(
        &bits, raw.data() + (at - raw.data()) / size * size, static_cast<std::size_t>(size)
    );
    return bits;
}

std::uint64_t sum_of(std::span<std::byte const> bytes) {
    Hash sum;
    sum.add(bytes);
    return sum.value();
}

/// Encodes all elements and sums their codes. Returns the first that cannot be coded; -1: all are.
std::int64_t encode_elements(
    Kernels const& kernels,
    Job const& job,
    std::span<std::byte const> raw,
    std::byte* ranges,
    std::span<std::byte> codes,
    Hash& sum
) {
    Strides const stride(job);
    std::int64_t const count = std::ssize(raw) / job.element_bytes();
    std::int64_t const whole = count / kChunk;
    bool const past_caches = std::ssize(raw) >= kPastCachesBytes;
    alignas(64) std::byte near[kChunksAtOnce * kChunk];  // codes of 8 bits, the most
    for (std::int64_t first = 0; first < whole; first += kChunksAtOnce) {
        std::byte* const place = codes.data() + first * stride.codes;
        ChunksToEncode const chunks{
            .first = first,
            .count = std::min(kChunksAtOnce, whole - first),
            .raw = raw.data() + first * stride.raw,
            .ranges = ranges + first * stride.ranges,
            .codes = past_caches ? near : place};
        std::int64_t const bad = kernels.encode(job, chunks);
        if (bad >= 0) {
            return first * kChunk + bad;
        }
        auto const bytes = static_cast<std::size_t>(chunks.count * stride.codes);
        sum.add({chunks.codes, bytes});
        if (past_caches) {
            kernels.copy_past_caches(near, place, bytes);
        }
    }
    if (count % kChunk == 0) {
        return -1;
    }
    std::byte* const last = codes.data() + whole * stride.codes;
    int const bad = encode_chunk(
        job,
        whole,
        static_cast<int>(count % kChunk),
        raw.data() + whole * stride.raw,
        ranges + whole * stride.ranges,
        last
    );
    sum.add({last, static_cast<std::size_t>(codes.data() + codes.size() - last)});
    return bad < 0 ? -1 : whole * kChunk + bad;
}

/// Sums the codes and decodes them, piece by piece.
void decode_elements(
    Kernels const& kernels,
    Job const& job,
    std::byte const* ranges,
    std::span<std::byte const> codes,
    std::span<std::byte> raw,
    Hash& sum
) {
    Strides const stride(job);
    std::int64_t const count = std::ssize(raw) / job.element_bytes();
    std::int64_t const whole = count / kChunk;
    for (std::int64_t first = 0; first < whole; first += kChunksAtOnce) {
        ChunksToDecode const chunks{
            .count = std::min(kChunksAtOnce, whole - first),
            .ranges = ranges + first * stride.ranges,
            .codes = codes.data() + first * stride.codes,
            .raw = raw.data() + first * stride.raw,
            .past_caches = std::ssize(raw) >= kPastCachesBytes};
        sum.add({chunks.codes, static_cast<std::size_t>(chunks.count * stride.codes)});
        kernels.decode(job, chunks);
    }
    if (count % kChunk != 0) {
        std::span<std::byte const> const last =
            codes.subspan(static_cast<std::size_t>(whole * stride.codes));
        sum.add(last);
        decode_chunk(
            job,
            static_cast<int>(count % kChunk),
            ranges + whole * stride.ranges,
            last.data(),
            raw.data() + whole * stride.raw
        );
    }
}

Result<void> check_sizes(
    Encoding const& encoding, std::int64_t raw, std::int64_t coded, std::int64_t needed
) {
    if (raw != encoding.raw_bytes() || coded < needed) {
        return Error{
            Errc::bad_argument,
            fmt::format(
                "{} raw bytes and room for {} coded ones, not {} and {}",
                raw,
                coded,
                encoding.raw_bytes(),
                needed
            ),
            to_text(encoding.codec)};
    }
    return {};
}

template <typename Byte>
struct Parts {
    std::span<Byte> ranges;
    std::span<Byte> codes;
};

template <typename Byte>
Parts<Byte> parts_of(Layout const& layout, std::span<Byte> coded) {
    return {
        coded.subspan(kHeaderBytes, static_cast<std::size_t>(layout.range_bytes)),
        coded.subspan(static_cast<std::size_t>(layout.codes_offset()))};
}

/// Fills the parts and their header fields. Returns the first element that cannot be encoded.
std::int64_t encode_parts(
    Kernels const& kernels,
    Encoding const& encoding,
    std::span<std::byte const> raw,
    Parts<std::byte> parts,
    std::uint64_t seed,
    BlockHeader& header
) {
    if (code_bits(encoding.codec) == 0) {
        if (encoding.codec.kind == CodecKind::lossless) {
            header.codes_bytes = compress(kernels, encoding.dtype, raw, parts.codes);
        } else {
            std::copy(raw.begin(), raw.end(), parts.codes.begin());
        }
        header.codes_sum = sum_of(parts.codes.first(static_cast<std::size_t>(header.codes_bytes)));
        header.ends_sum = sum_of(parts.ranges);
        return -1;
    }
    Job job = job_of(encoding, seed);
    std::fill_n(parts.ranges.rbegin(), std::min<std::size_t>(64, parts.ranges.size()), std::byte{});
    if (encoding.codec.kind == CodecKind::mask) {
        job.other = first_other(encoding.dtype, raw);
        std::memcpy(parts.ranges.data(), &job.other, sizeof job.other);
    }
    Hash sum;
    std::int64_t const bad =
        encode_elements(kernels, job, raw, parts.ranges.data(), parts.codes, sum);
    header.codes_sum = sum.value();
    header.ends_sum = sum_of(parts.ranges);
    return bad;
}

/// Decodes the parts into `raw`. Returns whether they match the header.
bool decode_parts(
    Kernels const& kernels,
    Encoding const& encoding,
    Parts<std::byte const> parts,
    std::span<std::byte> raw,
    BlockHeader const& header
) {
    if (sum_of(parts.ranges) != header.ends_sum) {
        return false;
    }
    if (code_bits(encoding.codec) > 0) {
        Job job = job_of(encoding, 0);
        if (encoding.codec.kind == CodecKind::mask) {
            std::memcpy(&job.other, parts.ranges.data(), sizeof job.other);
        }
        Hash sum;
        decode_elements(kernels, job, parts.ranges.data(), parts.codes, raw, sum);
        return sum.value() == header.codes_sum;
    }
    if (sum_of(parts.codes) != header.codes_sum) {
        return false;
    }
    if (encoding.codec.kind == CodecKind::lossless) {
        return decompress(kernels, encoding.dtype, parts.codes, raw);
    }
    std::copy(parts.codes.begin(), parts.codes.end(), raw.begin());
    return true;
}

}  // namespace

Result<std::int64_t> encode_with(
    Kernels const& kernels,
    Encoding const& encoding,
    std::span<std::byte const> raw,
    std::span<std::byte> coded,
    std::uint64_t seed
) {
    Result<std::int64_t> const size = encoded_bytes(encoding);
    if (!size.ok()) {
        return size.error();
    }
    Result<void> const fits = check_sizes(encoding, std::ssize(raw), std::ssize(coded), *size);
    if (!fits.ok()) {
        return fits.error();
    }
    Layout const layout = layout_of(encoding);
    coded = coded.first(static_cast<std::size_t>(*size));
    BlockHeader header{.codes_bytes = layout.codes_bytes};
    std::int64_t const bad =
        encode_parts(kernels, encoding, raw, parts_of(layout, coded), seed, header);
    if (bad >= 0) {
        return bad_element(encoding, raw, bad);
    }
    write_header(encoding, header, coded);
    return layout.codes_offset() + header.codes_bytes;
}

Result<void> decode_with(
    Kernels const& kernels,
    Encoding const& encoding,
    std::span<std::byte const> coded,
    std::span<std::byte> raw
) {
    Result<std::int64_t> const size = encoded_bytes(encoding);
    if (!size.ok()) {
        return size.error();
    }
    Result<void> const fits = check_sizes(encoding, std::ssize(raw), *size, *size);
    if (!fits.ok()) {
        return fits.error();
    }
    Result<BlockHeader> const header = read_header(encoding, coded);
    if (!header.ok()) {
        return header.error();
    }
    Layout const layout = layout_of(encoding);
    coded = coded.first(static_cast<std::size_t>(layout.codes_offset() + header->codes_bytes));
    if (!decode_parts(kernels, encoding, parts_of(layout, coded), raw, *header)) {
        return corrupt_block(
            encoding, "bytes came back different from what was encoded (checksum)"
        );
    }
    return {};
}

}  // namespace spillway
