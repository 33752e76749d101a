// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "codec/block.h"

#include "codec/layout.h"

#include <fmt/format.h>
#include <xxhash.h>
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>  // the widest vectors that this machine has
#endif

#include <array>
#include <bit>
#include <cstring>

namespace spillway {

namespace {

static_assert(std::endian::native == std::endian::little, "blocks are little-endian");

constexpr std::array<char, 4> kMagic{'S', 'P', 'C', 'B'};
constexpr std::uint8_t kVersion = 1;

/// As it lies in the block; every byte is one of a field.
struct Image {
    std::array<char, 4> magic = kMagic;
    std::uint8_t version = kVersion;
    std::uint8_t kind = 0;
    std::uint8_t dtype = 0;
    std::uint8_t flags = 0;  // 1: absmax, 2: stochastic
    std::uint16_t bits = 0;
    std::uint16_t group = 0;
    std::uint32_t zero = 0;
    std::int64_t count = 0;
    std::int64_t codes_bytes = 0;
    std::uint64_t ends_sum = 0;
    std::uint64_t codes_sum = 0;
    std::uint64_t also_zero = 0;
    std::uint64_t header_sum = 0;
};
static_assert(sizeof(Image) == kHeaderBytes);
static_assert(static_cast<int>(CodecKind::lossless) == 7 && static_cast<int>(Dtype::u8) == 3);

Image image_of(Encoding const& encoding, BlockHeader const& header) {
    Codec const& codec = encoding.codec;
    Image image;
    image.kind = static_cast<std::uint8_t>(codec.kind);
    image.dtype = static_cast<std::uint8_t>(encoding.dtype);
    image.flags = static_cast<std::uint8_t>((codec.absmax ? 1 : 0) | (codec.stochastic ? 2 : 0));
    image.bits = static_cast<std::uint16_t>(codec.bits);
    image.group = static_cast<std::uint16_t>(codec.group);
    image.count = encoding.count;
    image.codes_bytes = header.codes_bytes;
    image.ends_sum = header.ends_sum;
    image.codes_sum = header.codes_sum;
    image.header_sum = XXH3_64bits(&image, offsetof(Image, header_sum));
    return image;
}

std::uint64_t sum_of(std::span<std::byte const> bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

void write_header(Encoding const& encoding, BlockHeader const& header, std::span<std::byte> coded) {
    Image const image = image_of(encoding, header);
    std::memcpy(coded.data(), &image, sizeof image);
}

std::string subject_of(Encoding const& encoding) {
    return fmt::format(
        "{} of {} {}", to_text(encoding.codec), encoding.count, name_of(encoding.dtype)
    );
}

Error corrupt_block(Encoding const& encoding, std::string_view what) {
    return {Errc::corrupt, std::string(what), subject_of(encoding)};
}

Result<BlockHeader> read_header(Encoding const& encoding, std::span<std::byte const> coded) {
    Image image;
    if (coded.size() < sizeof image) {
        return corrupt_block(encoding, fmt::format("{} bytes are not a coded block", coded.size()));
    }
    std::memcpy(&image, coded.data(), sizeof image);
    BlockHeader const header{image.codes_bytes, image.ends_sum, image.codes_sum};
    Image const expected = image_of(encoding, header);
    if (std::memcmp(&image, &expected, sizeof image) != 0) {
        return corrupt_block(encoding, "the header is not one of such a block (or its checksum)");
    }
    Layout const layout = layout_of(encoding);
    bool const lossless = encoding.codec.kind == CodecKind::lossless;
    std::int64_t const most = std::ssize(coded) - layout.codes_offset();
    bool const is_whole = lossless ? header.codes_bytes >= 0 && header.codes_bytes <= most
                                   : header.codes_bytes == most && most == layout.codes_bytes;
    if (!is_whole) {
        return corrupt_block(
            encoding,
            fmt::format(
                "{} bytes are not the {} of the block",
                coded.size(),
                header.codes_bytes + layout.codes_offset()
            )
        );
    }
    return header;
}

Result<void> seal_block(Encoding const& encoding, std::span<std::byte> coded) {
    std::uint64_t refused = 0;
    std::memcpy(&refused, coded.data(), sizeof refused);
    if (refused != kNoneRefused) {
        bool const is_mask = encoding.codec.kind == CodecKind::mask;
        return Error{
            Errc::unsupported,
            fmt::format("element {} is {}", refused, is_mask ? "a third value" : "NaN or infinite"),
            subject_of(encoding)};
    }
    Layout const layout = layout_of(encoding);
    BlockHeader header{.codes_bytes = layout.codes_bytes};
    header.ends_sum = sum_of(coded.subspan(
        static_cast<std::size_t>(layout.ranges_offset()),
        static_cast<std::size_t>(layout.range_bytes)
    ));
    header.codes_sum = sum_of(coded.subspan(
        static_cast<std::size_t>(layout.codes_offset()),
        static_cast<std::size_t>(layout.codes_bytes)
    ));
    write_header(encoding, header, coded);
    return {};
}

Result<void> check_block(Encoding const& encoding, std::span<std::byte const> coded) {
    Result<BlockHeader> const header = read_header(encoding, coded);
    if (!header.ok()) {
        return header.error();
    }
    auto const codes_at = static_cast<std::size_t>(layout_of(encoding).codes_offset());
    bool const same = sum_of(coded.first(codes_at).subspan(kHeaderBytes)) == header->ends_sum &&
                      sum_of(coded.subspan(codes_at)) == header->codes_sum;
    if (!same) {
        return corrupt_block(
            encoding, "bytes came back different from what was encoded (checksum)"
        );
    }
    return {};
}

}  // namespace spillway
