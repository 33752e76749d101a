// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// When a value's bytes may leave the device.
#pragma once

#include <cstdint>
#include <string_view>

namespace spillway {

enum class Advice : std::uint8_t {
    never,        ///< not even when the budget cannot be met
    last_resort,  ///< leaves only when an allocation would fail otherwise
    when_asked,   ///< leaves when the budget asks for room
    at_once,      ///< its store starts as soon as only the saved graph holds it
};

/// "never", "last_resort", "when_asked", "at_once".
[[nodiscard]] std::string_view name_of(Advice advice);

}  // namespace spillway
