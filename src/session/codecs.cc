// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "spillway/codecs.h"

#include "base/assert.h"
#include "codec/codec.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <random>
#include <span>
#include <string_view>

namespace spillway {

namespace {

constexpr std::int64_t kTensorBytes = std::int64_t{1} << 20;
constexpr int kRounds = 3;

/// Each kind with its defaults, and what stochastic rounding and absmax change.
constexpr std::array<std::string_view, 15> kShown{
    "affine2",
    "affine3",
    "affine4",
    "affine4:stochastic",
    "affine4:absmax",
    "affine5",
    "affine6",
    "affine8",
    "fp8_e4m3",
    "fp8_e5m2",
    "nf4",
    "mask",
    "sign",
    "lossless",
    "identity"};

using Buffer = std::vector<std::byte>;

struct Buffers {
    Buffer normals;
    Buffer masks;  ///< zeros and ones
    Buffer coded;
    Buffer back;
};

/// Numbers around 0 like those of activations, a mebibyte of them again and again.
Buffers buffers_of(std::int64_t raw_bytes) {
    auto const size = static_cast<std::size_t>(raw_bytes);
    Buffers buffers{Buffer(size), Buffer(size), Buffer(size + size / 8 + 4096), Buffer(size)};
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    std::size_t const distinct = std::min<std::size_t>(size / 4, std::size_t{1} << 18);
    for (std::size_t i = 0; i < size / 4; ++i) {
        float const number = i < distinct ? normal(random) : 0;
        float const one = number > 0 ? 1.0F : 0.0F;
        if (i < distinct) {
            std::memcpy(buffers.normals.data() + 4 * i, &number, sizeof number);
            std::memcpy(buffers.masks.data() + 4 * i, &one, sizeof one);
        } else {
            std::size_t const first = (i - distinct) * 4;
            std::memcpy(buffers.normals.data() + 4 * i, buffers.normals.data() + first, 4);
            std::memcpy(buffers.masks.data() + 4 * i, buffers.masks.data() + first, 4);
        }
    }
    return buffers;
}

/// Bytes a second of the fastest of some rounds, after one that warms up.
template <typename Work>
double rate_of(std::size_t bytes, Work work) {
    double shortest = 0;
    for (int round = 0; round <= kRounds; ++round) {
        auto const begin = std::chrono::steady_clock::now();
        work();
        std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
        shortest = round <= 1 ? took.count() : std::min(shortest, took.count());
    }
    return static_cast<double>(bytes) / std::max(shortest, 1e-9);
}

std::string bound_of(Codec const& codec) {
    if (error_bound(codec) == 0) {
        return "";
    }
    return codec.kind == CodecKind::affine && !codec.absmax ? "range" : "largest";
}

CodecSpeed speed_of(Codec const& codec, Buffers& buffers) {
    Buffer const& raw = codec.kind == CodecKind::mask ? buffers.masks : buffers.normals;
    Encoding const encoding{codec, Dtype::f32, std::ssize(raw) / 4};
    CodecSpeed speed;
    speed.codec = to_text(codec);
    speed.lossy = is_lossy(codec);
    speed.error_bound = error_bound(codec);
    speed.bound_of = bound_of(codec);
    speed.encoded_bytes = *encoded_bytes({codec, Dtype::f32, kTensorBytes / 4});
    std::int64_t size = 0;
    speed.encode_bytes_per_s = rate_of(raw.size(), [&] {
        Result<std::int64_t> const encoded = encode(encoding, raw, buffers.coded, 1);
        SPILLWAY_ASSERT(encoded.ok(), "these numbers can be encoded");
        size = *encoded;
    });
    auto const coded = std::span(buffers.coded).first(static_cast<std::size_t>(size));
    speed.decode_bytes_per_s = rate_of(raw.size(), [&] {
        SPILLWAY_ASSERT(decode(encoding, coded, buffers.back).ok(), "this is a coded block");
    });
    speed.bits_per_element = 8 * static_cast<double>(size) / static_cast<double>(encoding.count);
    return speed;
}

}  // namespace

CodecSpeed measure_codec(std::string_view codec, std::int64_t raw_bytes) {
    Buffers buffers = buffers_of(raw_bytes / 4 * 4);
    return speed_of(*parse_codec(codec), buffers);
}

CodecSpeeds measure_codecs(std::int64_t raw_bytes) {
    Buffers buffers = buffers_of(raw_bytes / 4 * 4);
    CodecSpeeds speeds;
    speeds.tensor_bytes = kTensorBytes;
    speeds.measured_bytes = std::ssize(buffers.normals);
    speeds.copy_bytes_per_s = rate_of(buffers.normals.size(), [&buffers] {
        std::memcpy(buffers.back.data(), buffers.normals.data(), buffers.back.size());
    });
    for (std::string_view const text : kShown) {
        speeds.codecs.push_back(speed_of(*parse_codec(text), buffers));
    }
    return speeds;
}

}  // namespace spillway
