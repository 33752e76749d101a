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

/// What was typed where the number needs a second look.
struct TrainText {
    std::string device_budget;
    std::string host_budget;
    std::string nvme_budget;
    std::string nvme_rate;
};

/// Adds every flag with its default. `options` and `text` must outlive the parsing.
void add_train_flags(CLI::App& app, TrainOptions& options, TrainText& text);

/// Reads the sizes of `text` into `options`, after the parsing.
///
/// Fails   CLI::ValidationError naming flag and text
void read_sizes(TrainText const& text, TrainOptions& options);

}  // namespace spillway::cli
