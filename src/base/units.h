// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Bytes, durations and rates. Sizes are signed 64-bit. Plain integers carry their unit in the name
// (size_bytes, deadline_ns); these types are for the places where units meet.
#pragma once

#include "base/result.h"

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace spillway {

struct Nanos {
    std::int64_t count = 0;
    auto operator<=>(Nanos const&) const = default;
    Nanos& operator+=(Nanos other) {
        count += other.count;
        return *this;
    }
};
constexpr Nanos operator+(Nanos a, Nanos b) {
    return {a.count + b.count};
}
constexpr Nanos operator-(Nanos a, Nanos b) {
    return {a.count - b.count};
}

struct BytesPerSec {
    double count = 0;
    auto operator<=>(BytesPerSec const&) const = default;
};

struct Bytes {
    std::int64_t count = 0;
    auto operator<=>(Bytes const&) const = default;
    Bytes& operator+=(Bytes other) {
        count += other.count;
        return *this;
    }
    Bytes& operator-=(Bytes other) {
        count -= other.count;
        return *this;
    }
};
constexpr Bytes operator+(Bytes a, Bytes b) {
    return {a.count + b.count};
}
constexpr Bytes operator-(Bytes a, Bytes b) {
    return {a.count - b.count};
}

/// The only way to a transfer time. A rate of 0 or less gives the longest duration.
[[nodiscard]] Nanos operator/(Bytes amount, BytesPerSec rate);

inline namespace literals {
constexpr std::int64_t operator""_KiB(unsigned long long n) {
    return static_cast<std::int64_t>(n) << 10;
}
constexpr std::int64_t operator""_MiB(unsigned long long n) {
    return static_cast<std::int64_t>(n) << 20;
}
constexpr std::int64_t operator""_GiB(unsigned long long n) {
    return static_cast<std::int64_t>(n) << 30;
}
}  // namespace literals

/// Rounds `n` up to a multiple of `unit` (a power of two).
constexpr std::int64_t round_up(std::int64_t n, std::int64_t unit) {
    return (n + unit - 1) & ~(unit - 1);
}

/// Reads a size as people type it: "600MiB", "1.5 GiB" (binary: KiB to EiB), "700MB" (decimal:
/// KB to EB), "4096" or "4096B" (bytes), "80%" (of `whole_bytes`).
///
/// Fails   Errc::bad_argument with the text as typed: not a size, negative, below one byte,
///         too large, or a share where `whole_bytes` is 0 (nothing it could be a share of)
[[nodiscard]] Result<std::int64_t> parse_size(std::string_view text, std::int64_t whole_bytes);

/// "512.3 MiB": binary units, one decimal, bytes below 1 KiB whole.
[[nodiscard]] std::string format_size(std::int64_t size_bytes);

/// "1.0 MiB (1052672 bytes)", where two sizes that look alike once rounded are compared.
[[nodiscard]] std::string format_exact_size(std::int64_t size_bytes);

}  // namespace spillway
