// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A trace for people.
#pragma once

#include "trace/trace.h"

#include <string>
#include <string_view>

namespace spillway {

/// Of a trace in which no value has a recipe.
inline constexpr std::string_view kNoRecipes =
    "no tensor of the step has a recipe; a step that a session with recompute on records has them";

/// Lines that end in a newline: phases with their times and peaks, then the operators whose results
/// were saved, with how much of them can be made again, then why the others cannot, or that no
/// recipe was recorded; the largest first. `trace` is valid.
[[nodiscard]] std::string to_table(Trace const& trace);

}  // namespace spillway
