// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "test_paths.h"

namespace spillway {

std::string source_folder() {
    return SPILLWAY_SOURCE_DIR;
}

std::string build_folder() {
    return SPILLWAY_BINARY_DIR;
}

}  // namespace spillway
