// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "mover/coding.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>

namespace spillway {

namespace {

/// What coded staging is cut into: a page, as direct I/O wants it.
constexpr std::int64_t kUnitBytes = 4096;

/// One element of so many is looked at.
constexpr std::int64_t kSampledShare = 16;
constexpr std::int64_t kMostWindows = 64;
/// More than any codec makes of a window: of 8 bits with two floats for each 32 elements.
constexpr std::size_t kMostCodedBytes = 4 * Windows::kDtypes;

template <typename Word>
Word word_at(std::byte const* at) {
    Word word;
    std::memcpy(&word, at, sizeof word);
    return word;
}

float half_to_float(std::uint16_t half) {
    std::uint32_t const sign = std::uint32_t{half} >> 15 << 31;
    std::uint32_t const exponent = (half >> 10) & 31U;
    std::uint32_t const mantissa = half & 1023U;
    if (exponent == 0) {
        float const magnitude = static_cast<float>(mantissa) * 0x1p-24F;
        return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
    }
    return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

double element_at(Dtype dtype, std::byte const* bytes, std::int64_t index) {
    std::byte const* const at = bytes + index * size_of(dtype);
    switch (dtype) {
        case Dtype::f32:
            return word_at<float>(at);
        case Dtype::bf16:
            return std::bit_cast<float>(std::uint32_t{word_at<std::uint16_t>(at)} << 16);
        case Dtype::f16:
            return half_to_float(word_at<std::uint16_t>(at));
        case Dtype::u8:
            break;
    }
    return static_cast<double>(*at);
}

/// Adds what coding changes in the elements of one window.
void look_at(
    Encoding const& window, std::span<std::byte const> raw, std::uint64_t seed, SquareSums& sums
) {
    std::array<std::byte, kMostCodedBytes> coded;
    std::array<std::byte, Windows::kDtypes * sizeof(float)> back;
    std::span const decoded = std::span(back).first(raw.size());
    Result<std::int64_t> const size = encode(window, raw, coded, seed);
    if (!size.ok() ||
        !decode(window, std::span(coded).first(static_cast<std::size_t>(*size)), decoded).ok()) {
        return;
    }
    for (std::int64_t i = 0; i < window.count; ++i) {
        double const value = element_at(window.dtype, raw.data(), i);
        double const error = element_at(window.dtype, decoded.data(), i) - value;
        sums.of_errors += error * error;
        sums.of_values += value * value;
    }
}

}  // namespace

// Windows are as long as the largest group, so that a nearest codec gives what it gave the whole
// tensor.
Windows::Windows(Encoding const& encoding, std::int64_t most)
    : elements_(encoding.count),
      windows_((encoding.count + kDtypes - 1) / kDtypes),
      size_(std::min(std::clamp<std::int64_t>(windows_ / kSampledShare, 1, most), windows_)) {
    if (!is_lossy(encoding.codec) || encoding.codec.kind == CodecKind::sign) {
        size_ = 0;
    }
}

std::int64_t Windows::elements() const {
    std::int64_t elements = 0;
    for (std::int64_t i = 0; i < size_; ++i) {
        elements += (*this)[i].count;
    }
    return elements;
}

Window Windows::operator[](std::int64_t i) const {
    std::int64_t const first = i * windows_ / size_ * kDtypes;
    return {first, std::min(kDtypes, elements_ - first)};
}

SquareSums sample_error(
    Encoding const& encoding, std::span<std::byte const> raw, std::uint64_t seed
) {
    Windows const windows(encoding, kMostWindows);
    SquareSums sums;
    for (std::int64_t i = 0; i < windows.size(); ++i) {
        Encoding window = encoding;
        window.count = windows[i].count;
        auto const at = static_cast<std::size_t>(windows[i].first * size_of(encoding.dtype));
        auto const size = static_cast<std::size_t>(window.raw_bytes());
        look_at(window, raw.subspan(at, size), seed + static_cast<std::uint64_t>(i), sums);
    }
    return sums;
}

SquareSums sample_error(
    Encoding const& encoding,
    Windows const& windows,
    std::span<std::byte const> samples,
    std::uint64_t seed
) {
    SquareSums sums;
    for (std::int64_t i = 0; i < windows.size(); ++i) {
        Encoding window = encoding;
        window.count = windows[i].count;
        auto const size = static_cast<std::size_t>(window.raw_bytes());
        look_at(window, samples.first(size), seed + static_cast<std::uint64_t>(i), sums);
        samples = samples.subspan(size);
    }
    return sums;
}

CodingCounters& CodingTally::of(BlockCode const& code) {
    auto const found = std::find_if(rows_.begin(), rows_.end(), [&](CodingCounters const& row) {
        return row.label == code.label && row.codec == code.encoding.codec;
    });
    if (found != rows_.end()) {
        return *found;
    }
    return rows_.emplace_back(CodingCounters{.label = code.label, .codec = code.encoding.codec});
}

CodedStaging::CodedStaging(HostMemory const& memory, void* on_device)
    : bytes_(memory.bytes()),
      on_device_(static_cast<std::byte*>(on_device)),
      halves_{
          ExtentPool(std::ssize(bytes_) / 2 / kUnitBytes * kUnitBytes, kUnitBytes),
          ExtentPool(std::ssize(bytes_) / 2 / kUnitBytes * kUnitBytes, kUnitBytes)} {}

std::span<std::byte> CodedStaging::half(Direction way) const {
    auto const size = static_cast<std::size_t>(most_bytes());
    return bytes_.subspan(way == Direction::store ? 0 : size, size);
}

std::span<std::byte> CodedStaging::take(Direction way, std::int64_t size_bytes) {
    std::optional<std::int64_t> const first =
        halves_[static_cast<std::size_t>(way)].take(size_bytes);
    if (!first) {
        return {};
    }
    return half(way).subspan(
        static_cast<std::size_t>(*first), static_cast<std::size_t>(size_bytes)
    );
}

void CodedStaging::give_back(Direction way, std::span<std::byte> room) {
    if (!room.empty()) {
        halves_[static_cast<std::size_t>(way)].give_back(
            room.data() - half(way).data(), std::ssize(room)
        );
    }
}

std::byte* CodedStaging::on_device(std::span<std::byte> room) const {
    return on_device_ + (room.data() - bytes_.data());
}

std::int64_t CodedStaging::used_bytes() const {
    return 2 * most_bytes() - halves_[0].free_bytes() - halves_[1].free_bytes();
}

}  // namespace spillway
