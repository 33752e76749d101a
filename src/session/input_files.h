// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the commands that plan are given: files of the nouns, or a machine's name.
#pragma once

#include "base/result.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "trace/trace.h"

#include <string>

namespace spillway {

/// Fails   Errc::io naming the file
[[nodiscard]] Result<std::string> read_text(std::string const& path);

/// Fails   as read_text; Errc::bad_format naming file and field, or line and column of no JSON
[[nodiscard]] Result<Trace> read_trace(std::string const& path);
[[nodiscard]] Result<Plan> read_plan(std::string const& path);

/// A file, or the name of a data sheet where there is no such file.
///
/// Fails   as read_trace; Errc::bad_argument: there is neither, with the names that there are
[[nodiscard]] Result<Machine> read_machine(std::string const& file_or_name);

}  // namespace spillway
