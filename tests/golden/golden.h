// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The golden texts of this folder: small examples of every format, also shown in docs/formats/.
#pragma once

#include "test_paths.h"

#include <fstream>
#include <iterator>
#include <string>

namespace spillway {

/// The whole file at `path` of the source tree; empty when it cannot be read.
inline std::string source_file(std::string const& path) {
    std::ifstream stream(source_folder() + "/" + path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

inline std::string golden(std::string const& name) {
    return source_file("tests/golden/" + name);
}

}  // namespace spillway
