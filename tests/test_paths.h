// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Where the tree and its build folder are. Only test_paths.cc is compiled with these paths, so that
// the compiler cache knows every other test again in another clone.
#pragma once

#include <string>

namespace spillway {

[[nodiscard]] std::string source_folder();
[[nodiscard]] std::string build_folder();

}  // namespace spillway
