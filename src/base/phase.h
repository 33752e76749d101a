// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The parts of a training step. Peaks, timelines and messages are reported by phase.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spillway {

enum class Phase : std::uint8_t { setup, forward, backward, update };
inline constexpr std::size_t kPhases = 4;

/// "setup", "forward", "backward", "update".
[[nodiscard]] std::string_view name_of(Phase phase);

}  // namespace spillway
