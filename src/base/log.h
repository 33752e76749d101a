// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One line to stderr for what the user must see once. Not for data: reports carry that.
#pragma once

#include <string_view>

namespace spillway {

/// Prints "spillway: <line>" to stderr. Thread-safe; lines are not torn.
void log_line(std::string_view line);

/// Like `log_line`, but a line that was printed before in this process is not printed again.
void log_once(std::string_view line);

}  // namespace spillway
