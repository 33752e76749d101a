// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Units: the repeated parts of a model (its layers or blocks), found in a trace.
#pragma once

#include "trace/trace.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace spillway {

/// In the order of the forward.
struct Units {
    std::vector<std::string> names;                    ///< "h.0", "layers.3"
    std::vector<std::optional<std::size_t>> of_value;  ///< by value; none: it belongs to no unit
    std::vector<std::optional<std::size_t>> of_point;  ///< by point, forward and backward
};

/// From the modules' paths: the first part of a path that is a number and whose siblings occur, too
/// ("transformer.h.0.attn", "transformer.h.1.attn" give the units "transformer.h.0" and "...1").
/// Below a stage, whose bytes are nearly all in numbered parts that look alike, those are the
/// units: "stages.0.blocks.0", "features.1.0". Where no module is known, from what repeats: the
/// longest run of saves whose producers, outputs and sizes come again and again. A forward's point
/// is of the unit of what it saves, else of the point before; a backward's of the unit of what it
/// needs. Empty `names`: nothing repeats.
[[nodiscard]] Units units_of(Trace const& trace);

/// The same for what leaves layer by layer. Where modules have less than half of the values, since
/// most lie between two ("0.0" and "1.0"), from what repeats, if that has more: a unit may be a
/// single value then.
[[nodiscard]] Units units_of_layers(Trace const& trace);

}  // namespace spillway
