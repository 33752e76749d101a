// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One line to stderr for what a user must hear once. Not for data: reports carry that.
#pragma once

#include <string_view>

namespace spillway {

/// Prints "spillway: <line>" to stderr. Thread-safe; lines are not torn.
void say(std::string_view line);

/// Like `say`, but a line that was said before in this process is not said again.
void log_once(std::string_view line);

}  // namespace spillway
