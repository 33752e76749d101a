// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// For tests of policies: a step of equal layers, each of which saves one value, small enough to
// draw, and a machine whose links take a tenth of a layer's time for it.
#pragma once

#include "base/units.h"
#include "machine/machine.h"
#include "trace/trace.h"

#include <cstdint>
#include <string>

namespace spillway {

inline constexpr std::int64_t kChainSetBytes = 1'000'000;
inline constexpr std::int64_t kChainFloorBytes = 500'000;
inline constexpr std::int64_t kChainForwardNs = 1'000'000;
inline constexpr std::int64_t kChainBackwardNs = 2'000'000;

inline Slot of_layer(std::int32_t layer) {
    return {"layer", 0, layer};
}

/// Layer i's value has the slot of_layer(i), and is saved and unshared when its layer has
/// ended.
inline Trace chain(std::int64_t layers) {
    Trace trace{.name = "chain", .values = {}, .points = {}};
    for (std::int64_t i = 0; i < layers; ++i) {
        trace.values.push_back(
            {.slot = {"layer", 0, static_cast<std::int32_t>(i)},
             .size_bytes = kChainSetBytes,
             .module = "h." + std::to_string(i)}
        );
        trace.points.push_back(
            {.phase = Phase::forward,
             .duration_ns = kChainForwardNs,
             .floor_bytes = kChainFloorBytes}
        );
        trace.points.push_back(
            {.phase = Phase::forward,
             .floor_bytes = kChainFloorBytes,
             .saved = {ValueId{i}},
             .unshared = {ValueId{i}}}
        );
    }
    for (std::int64_t i = layers; i-- > 0;) {
        trace.points.push_back(
            {.phase = Phase::backward,
             .duration_ns = kChainBackwardNs,
             .floor_bytes = kChainFloorBytes,
             .needed = {ValueId{i}},
             .dropped = {ValueId{i}}}
        );
    }
    return trace;
}

/// As `chain`; every second layer's value can be made from the one before.
inline Trace chain_with_recipes(std::int64_t layers, std::int64_t remake_ns) {
    Trace trace = chain(layers);
    for (std::int64_t i = 1; i < layers; i += 2) {
        trace.values[static_cast<std::size_t>(i)].recipe =
            RecipeShape{.sources = {ValueId{i - 1}}, .calls = 1, .duration_ns = remake_ns};
    }
    return trace;
}

/// 10 bytes a nanosecond to the host and back.
inline Machine fast_machine(double rate_bytes_per_s = 1e10) {
    Machine machine{.name = "fast", .tiers = {}, .links = {}, .groups = {}};
    machine.tiers = {{"device", Pool::device, 1_GiB}, {"host", Pool::host, 1_GiB}};
    machine.links = {
        {Pool::device, Pool::host, rate_bytes_per_s, rate_bytes_per_s, 0, ""},
        {Pool::host, Pool::device, rate_bytes_per_s, rate_bytes_per_s, 0, ""}};
    return machine;
}

}  // namespace spillway
