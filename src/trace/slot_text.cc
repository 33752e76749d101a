// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/slot_text.h"

#include <nlohmann/json.hpp>

#include <cstdint>

namespace spillway {

nlohmann::ordered_json to_json(Slot const& slot) {
    return {{"producer", slot.producer}, {"output", slot.output}, {"occurrence", slot.occurrence}};
}

Slot read_slot(JsonView const& view) {
    view.only({"producer", "output", "occurrence"});
    Slot slot;
    slot.producer = view.at("producer").text();
    slot.output = static_cast<std::int32_t>(view.at("output").integer(0, INT32_MAX));
    slot.occurrence = static_cast<std::int32_t>(view.at("occurrence").integer(0, INT32_MAX));
    return slot;
}

}  // namespace spillway
