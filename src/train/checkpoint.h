// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A run on disk: a folder with model.safetensors, optimizer.safetensors and state.json. It appears
// whole or not at all, and replaces an older one in one step. docs/formats/ has the fields.
#pragma once

#include "train/budget.h"
#include "train/model.h"

#include <nlohmann/json_fwd.hpp>
#include <torch/optim/adamw.h>

#include <cstdint>
#include <memory>
#include <string>

namespace spillway::train {

/// Writes the state after `steps_done` updates. Moments that are away come back one by one.
///
/// Fails   FileError; what was at `path` is then still there, whole
void save_checkpoint(
    std::string const& path,
    std::int64_t steps_done,
    nlohmann::json const& settings,
    LanguageModel const& model,
    torch::optim::AdamW& optimizer,
    Budget& budget
);

/// A checkpoint found whole: hashes, headers and fields are right.
///
/// Fails   BadValue naming --resume and the path as typed
class SavedRun {
  public:
    explicit SavedRun(std::string path);
    ~SavedRun();
    SavedRun(SavedRun const&) = delete;
    SavedRun& operator=(SavedRun const&) = delete;

    [[nodiscard]] std::int64_t steps_done() const;
    [[nodiscard]] nlohmann::json const& settings() const;

    /// Fills parameters, buffers and moments; these may leave by `budget` as they come.
    ///
    /// Fails   BadValue: tensors that are not this model's
    void load(LanguageModel& model, torch::optim::AdamW& optimizer, Budget& budget) const;

  private:
    struct State;
    std::string path_;
    std::unique_ptr<State> state_;
};

}  // namespace spillway::train
