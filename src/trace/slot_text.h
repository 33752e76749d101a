// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The text form of a slot, shared by all texts that name one.
#pragma once

#include "base/json_view.h"
#include "trace/slot.h"

#include <nlohmann/json_fwd.hpp>

namespace spillway {

[[nodiscard]] nlohmann::ordered_json to_json(Slot const& slot);
/// What is wrong becomes the error of the view's document.
[[nodiscard]] Slot read_slot(JsonView const& view);

}  // namespace spillway
