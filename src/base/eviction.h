// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// In which order values leave when a choice is made at run time.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace spillway {

enum class EvictionRule : std::uint8_t {
    next_use,  ///< those needed last first; by recipe, then moved
    delta,     ///< the largest and longest unused first, each by the cheaper way (executor/delta.h)
};

/// In the order of EvictionRule.
inline constexpr std::array<std::string_view, 2> kEvictionNames{"next_use", "delta"};

[[nodiscard]] constexpr std::string_view name_of(EvictionRule rule) {
    return kEvictionNames[static_cast<std::size_t>(rule)];
}

}  // namespace spillway
