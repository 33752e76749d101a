// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The flags of `spillway train`, filled into TrainOptions. bench/plain_train reads the same.
#pragma once

#include "spillway/train.h"

#include <string>

namespace CLI {
class App;
}

namespace spillway::cli {

/// Adds every flag with its default. `options` must outlive the parsing.
void add_train_flags(CLI::App& app, TrainOptions& options);

/// Of flags that need or exclude one another, the first pair, with their values: "--codec affine4:
/// needs --device-budget SIZE". CLI11's own error names the flags alone.
[[nodiscard]] std::string why_not_together(CLI::App const& app);

/// Reads the sizes of `options.typed` into `options.session`, after the parsing.
///
/// Fails   CLI::ValidationError naming flag and text
void read_sizes(TrainOptions& options);

}  // namespace spillway::cli
