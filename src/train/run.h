// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// One whole training run: checks what was asked, trains, reports.
#pragma once

#include "spillway/train.h"
#include "train/budget.h"

namespace spillway::train {

/// Prints for people on stderr (progress, errors) and stdout (the outcome); writes options.json.
///
/// Order   everything that the user typed is checked before anything is made
/// Returns the exit code as spillway/train.h defines it
[[nodiscard]] int run_training(TrainOptions const& options, Budget& budget);

}  // namespace spillway::train
