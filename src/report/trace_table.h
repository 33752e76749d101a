// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A trace for people.
#pragma once

#include "trace/trace.h"

#include <string>

namespace spillway {

/// Lines that end in a newline: phases with their times and peaks, then the operators whose results
/// were saved, with how much of them can be made again, then why the others cannot; the largest
/// first. `trace` is valid.
[[nodiscard]] std::string to_table(Trace const& trace);

}  // namespace spillway
