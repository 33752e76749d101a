// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What cannot happen: a broken invariant prints its location and aborts, in every build.
#pragma once

namespace spillway {

/// Prints "spillway: file:line: why (condition)" to stderr and aborts.
[[noreturn]] void assertion_failed(
    char const* condition, char const* why, char const* file, int line
) noexcept;

}  // namespace spillway

#define SPILLWAY_ASSERT(condition, why) \
    ((condition) ? static_cast<void>(0) \
                 : ::spillway::assertion_failed(#condition, why, __FILE__, __LINE__))
