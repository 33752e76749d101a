// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The text form of a plan as a part of another text.
#pragma once

#include "base/json_view.h"
#include "plan/plan.h"

#include <nlohmann/json_fwd.hpp>

namespace spillway {

[[nodiscard]] nlohmann::ordered_json to_json(Plan const& plan);
/// What is wrong becomes the error of the view's document.
[[nodiscard]] Plan read_plan(JsonView const& view);

}  // namespace spillway
