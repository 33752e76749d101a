// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Every codec with its size, its error and its speed on this machine.
#pragma once

#include "machine/codec_speed.h"

#include <cstdint>
#include <string_view>

namespace spillway {

/// Encodes and decodes `raw_bytes` of float32 with every codec, on the calling thread; takes about
/// a second at the default size, which no cache holds, and three times its memory.
[[nodiscard]] CodecSpeeds measure_codecs(std::int64_t raw_bytes = std::int64_t{64} << 20);

/// One of them, as --codec takes it.
[[nodiscard]] CodecSpeed measure_codec(std::string_view codec, std::int64_t raw_bytes);

}  // namespace spillway
