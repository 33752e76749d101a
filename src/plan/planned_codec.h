// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Codecs of a plan: what a value takes away from the device by its fate, and how fast a machine
// encodes and decodes.
#pragma once

#include "base/result.h"
#include "plan/plan.h"

#include <cstdint>
#include <string_view>

namespace spillway {

struct Codec;
struct TraceValue;

/// A codec that a plan may name, as `parse_codec` reads it.
///
/// Fails   Errc::bad_argument naming it: there is no such one; `lossless`, whose size is known only
///         when it has run; `identity`, which a plan leaves out
[[nodiscard]] Result<Codec> parse_planned_codec(std::string_view text);

/// Bytes of `value` encoded by `codec`, header included.
///
/// Fails   as `parse_planned_codec`; Errc::bad_argument naming the codec: it loses something of
///         integers or of all but the signs of what is no ReLU's result; Errc::unsupported: it does
///         not take elements of this type, or it makes the value no smaller
[[nodiscard]] Result<std::int64_t> coded_bytes(std::string_view codec, TraceValue const& value);

/// What a moved value takes away from the device: encoded where its fate has a codec, else as it
/// is. Of a fate whose codec `validate` takes.
[[nodiscard]] std::int64_t away_bytes(Fate const& fate, TraceValue const& value);

[[nodiscard]] bool has_codecs(Plan const& plan);
/// Some codec of it loses something.
[[nodiscard]] bool is_lossy(Plan const& plan);

/// Raw bytes a second. 0: not known.
struct CodecRates {
    double encode = 0;
    double decode = 0;

    bool operator==(CodecRates const&) const = default;
};

/// Note [How fast a machine encodes is derived]
/// Where a machine's file has no rates of codecs, they follow from its memory's, which bounds their
/// kernels: an encode takes as long as `kEncodePasses` passes of the raw bytes over it, a decode as
/// `kDecodePasses`. Both are what the kernels of `affine4:stochastic` reach on an H100
/// (docs/benchmarks.md), of 3.35 TB/s: 0.27 and 0.57. Assumed for every codec and device. They run
/// beside compute, whose share of the memory they take is not simulated.
inline constexpr double kEncodePasses = 4;
inline constexpr double kDecodePasses = 2;

/// As the machine's file says, else derived from its memory's rate; zeros where neither is known.
[[nodiscard]] CodecRates codec_rates(Machine const& machine);

}  // namespace spillway
