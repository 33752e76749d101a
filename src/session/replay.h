// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The public function of spillway/replay.h, which is declared there for programs: the session's
// folder includes no public header.
#pragma once

#include "base/result.h"
#include "timeline/replayed.h"

#include <string>

namespace spillway {

/// Fails   Errc::io, Errc::bad_format, with one line: the file cannot be read, or is no such record
[[nodiscard]] Result<Replayed> replay_file(std::string const& path);

}  // namespace spillway
