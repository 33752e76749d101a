// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// `spillway replay`: a recorded run, done again without torch.
#pragma once

#include <string>

namespace spillway::cli {

/// Prints what came of it. Returns the exit code: 0 the same commands, 1 others, 2 no such record.
[[nodiscard]] int run_replay(std::string const& path);

}  // namespace spillway::cli
