// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// `spillway trace`: shows a recorded step.
#pragma once

#include <string>

namespace spillway::cli {

/// Prints the table of the trace in `path`; returns the exit code.
[[nodiscard]] int run_trace(std::string const& path);

}  // namespace spillway::cli
