// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a run was asked, as JSON: the part that makes the model, and the part that makes its losses.
#pragma once

#include "spillway/train.h"
#include "train/data.h"
#include "train/model_shape.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace spillway::train {

/// Must be equal for a checkpoint to be loaded.
[[nodiscard]] nlohmann::json model_settings(ModelShape const& shape);

/// Must be equal for a resumed run to give the losses that the uninterrupted one gives.
[[nodiscard]] nlohmann::json run_settings(
    TrainOptions const& options, ModelShape const& shape, Corpus const& corpus
);

/// Everything as asked, for results.
[[nodiscard]] nlohmann::json all_settings(
    TrainOptions const& options, ModelShape const& shape, Corpus const& corpus
);

/// The user's own words for an option of the session, by its name in SessionOptions; "on": a
/// switch.
[[nodiscard]] std::string typed_words(TrainOptions const& options, std::string_view option);

/// "width 64, asked for 128" for each name whose values differ.
[[nodiscard]] std::vector<std::string> differences(
    nlohmann::json const& saved, nlohmann::json const& asked
);

}  // namespace spillway::train
