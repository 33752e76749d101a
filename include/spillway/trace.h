// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A recorded training step (docs/formats/trace.md), for people.
#pragma once

#include "base/result.h"

#include <string>

namespace spillway {

/// Times, peaks and saved tensors of the trace in a file, as a table.
///
/// Fails   Errc::io, Errc::bad_format, with one line: the file cannot be read, or is no trace
[[nodiscard]] Result<std::string> trace_table(std::string const& path);

}  // namespace spillway
