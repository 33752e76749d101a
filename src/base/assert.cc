// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace spillway {

void assertion_failed(char const* condition, char const* why, char const* file, int line) noexcept {
    std::fprintf(stderr, "spillway: %s:%d: %s (%s)\n", file, line, why, condition);
    std::abort();
}

}  // namespace spillway
