// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// For tests of policies: a step of equal layers, each of which saves one value, small enough to
// draw, and a machine whose links take a tenth of a layer's time for it.
#pragma once

#include "base/units.h"
#include "machine/machine.h"
#include "plan/plan.h"
#include "trace/trace.h"

#include <algorithm>
#include <cstdint>
#include <string>

namespace spillway {

inline constexpr std::int64_t kChainSetBytes = 1'000'000;
inline constexpr std::int64_t kChainFloorBytes = 500'000;
inline constexpr std::int64_t kChainForwardNs = 1'000'000;
inline constexpr std::int64_t kChainBackwardNs = 2'000'000;

/// How many values the plan has this fate for.
inline std::int64_t count_of(Plan const& plan, FateKind kind) {
    return std::count_if(plan.fates.begin(), plan.fates.end(), [&](auto const& each) {
        return each.second.kind == kind;
    });
}

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

inline constexpr std::int64_t kBlockInputBytes = 1'000'000;
inline constexpr std::int64_t kBlockTapeBytes = 3'000'000;
inline constexpr std::int64_t kBlockInputNs = 200'000;
inline constexpr std::int64_t kBlockTapeNs = 800'000;

inline Slot input_of_block(std::int32_t block) {
    return {"input", 0, block};
}
inline Slot tape_of_block(std::int32_t block) {
    return {"tape", 0, block};
}

/// Block i saves its input, value 2 i, which is made again from the tape of the block before, and
/// its tape, value 2 i + 1, which is made again from its input. The first input has no recipe.
inline Trace blocks(std::int32_t count) {
    Trace trace{.name = "blocks", .values = {}, .points = {}};
    for (std::int32_t i = 0; i < count; ++i) {
        ValueId const input{2 * i};
        ValueId const tape{2 * i + 1};
        TraceValue of_input{
            .slot = input_of_block(i),
            .size_bytes = kBlockInputBytes,
            .module = "h." + std::to_string(i)};
        TraceValue of_tape{
            .slot = tape_of_block(i), .size_bytes = kBlockTapeBytes, .module = of_input.module};
        of_tape.recipe = RecipeShape{.sources = {input}, .calls = 4, .duration_ns = kBlockTapeNs};
        if (i > 0) {
            of_input.recipe = RecipeShape{
                .sources = {ValueId{2 * i - 1}}, .calls = 1, .duration_ns = kBlockInputNs};
        }
        trace.values.push_back(of_input);
        trace.values.push_back(of_tape);
        trace.points.push_back({.floor_bytes = kChainFloorBytes, .saved = {input}});
        trace.points.push_back(
            {.duration_ns = kChainForwardNs,
             .floor_bytes = kChainFloorBytes,
             .saved = {tape},
             .unshared = {input}}
        );
        trace.points.push_back({.floor_bytes = kChainFloorBytes, .unshared = {tape}});
    }
    for (std::int32_t i = count; i-- > 0;) {
        trace.points.push_back(
            {.phase = Phase::backward,
             .duration_ns = kChainBackwardNs,
             .floor_bytes = kChainFloorBytes,
             .needed = {ValueId{2 * i + 1}, ValueId{2 * i}},
             .dropped = {ValueId{2 * i + 1}, ValueId{2 * i}}}
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
