// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Numbers that depend on their key alone, so that data order and dropout need no saved state.
#pragma once

#include "spillway/random.h"

#include <cstdint>
#include <initializer_list>

namespace spillway::train {

/// One number for a key of several.
constexpr std::uint64_t mixed(std::initializer_list<std::int64_t> key) {
    std::uint64_t state = 0;
    for (std::int64_t const part : key) {
        state = spillway::mixed(state ^ static_cast<std::uint64_t>(part));
    }
    return state;
}

/// Maps a random number onto [0, count), count > 0.
constexpr std::int64_t below(std::uint64_t random, std::int64_t count) {
    using Wide = unsigned __int128;
    return static_cast<std::int64_t>((static_cast<Wide>(random) * static_cast<Wide>(count)) >> 64U);
}

}  // namespace spillway::train
