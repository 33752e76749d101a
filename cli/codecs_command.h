// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// `spillway codecs`: every codec, measured here.
#pragma once

#include <string>

namespace spillway::cli {

/// Prints the table, and writes the same as JSON where `json_file` is not empty. Returns the exit
/// code: 0 done, 2 the file cannot be written.
[[nodiscard]] int run_codecs(std::string const& json_file);

}  // namespace spillway::cli
