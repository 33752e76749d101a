// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A recorded run, done again: a flight record, or the file of --record-events, gives the same
// commands on any machine, without torch and without a device.
#pragma once

#include "base/result.h"
#include "timeline/replayed.h"

#include <string>

namespace spillway {

/// Fails   Errc::io, Errc::bad_format, with one line: the file cannot be read, or is no such record
[[nodiscard]] Result<Replayed> replay_file(std::string const& path);

}  // namespace spillway
