// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The public function of spillway/codecs.h, which is declared there for programs: the session's
// folder includes no public header.
#pragma once

#include "machine/codec_speed.h"

#include <cstdint>

namespace spillway {

[[nodiscard]] CodecSpeeds measure_codecs(std::int64_t raw_bytes);

}  // namespace spillway
