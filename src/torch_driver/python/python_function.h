// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Python's C functions, without its headers and without linking it: one binary serves a program
// that has no Python, and every Python that has the stable ABI.
#pragma once

#include <dlfcn.h>

namespace spillway {

/// As the program or its libpython exports it; null: there is no Python, or none with `name`.
template <typename Function>
[[nodiscard]] Function* python_function(char const* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

}  // namespace spillway
