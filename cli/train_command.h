// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// `spillway train`: its flags, and the library that does the work.
#pragma once

#include "spillway/train.h"

namespace spillway::cli {

/// Loads libspillway_train.so from ../lib beside this program and runs it.
///
/// Returns the run's exit code; 2 with one line when the library cannot be loaded
[[nodiscard]] int run_train(TrainOptions const& options);

}  // namespace spillway::cli
