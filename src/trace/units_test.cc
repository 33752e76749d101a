// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "trace/units.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace spillway {
namespace {

using Names = std::vector<std::string>;
using Of = std::vector<std::optional<std::size_t>>;

/// A value a module, each saved at a point of its own and needed at one, last saved first needed.
Trace with_modules(Names const& modules) {
    Trace trace;
    for (std::size_t i = 0; i < modules.size(); ++i) {
        trace.values.push_back(
            {.slot = {"op" + std::to_string(i), 0, 0}, .size_bytes = 4096, .module = modules[i]}
        );
        trace.points.push_back({.saved = {ValueId{static_cast<std::int64_t>(i)}}});
    }
    for (std::size_t i = modules.size(); i-- > 0;) {
        trace.points.push_back(
            {.phase = Phase::backward, .needed = {ValueId{static_cast<std::int64_t>(i)}}}
        );
    }
    return trace;
}

TEST(Units, are_the_numbered_parts_of_a_model) {
    Units const units = units_of(
        with_modules({"wte", "h.0.attn", "h.0.mlp.c_fc", "h.1.attn", "h.1.mlp.c_fc", "ln_f"})
    );
    EXPECT_EQ(units.names, (Names{"h.0", "h.1"}));
    EXPECT_EQ(units.of_value, (Of{std::nullopt, 0, 0, 1, 1, std::nullopt}));
    EXPECT_EQ(units.of_point[3], 1U);
    EXPECT_EQ(units.of_point[6], std::nullopt) << "ln_f's backward";
    EXPECT_EQ(units.of_point[7], 1U);
}

TEST(Units, the_outermost_number_counts) {
    Units const units = units_of(with_modules(
        {"encoder.layer.0.experts.0", "encoder.layer.0.experts.1", "encoder.layer.1.experts.0"}
    ));
    EXPECT_EQ(units.names, (Names{"encoder.layer.0", "encoder.layer.1"}));
}

TEST(Units, of_a_sequence_of_stages_are_their_blocks) {
    Units const nested = units_of(
        with_modules({"0", "1.0.attn", "1.0.mlp.0", "1.1.attn", "1.1.mlp.0", "1.2.attn", "2"})
    );
    EXPECT_EQ(nested.names, (Names{"0", "1.0", "1.1", "1.2", "2"}));
    EXPECT_EQ(nested.of_value, (Of{0, 1, 1, 2, 2, 3, 4}));
    Units const stages = units_of(with_modules(
        {"stages.0.blocks.0.conv",
         "stages.0.blocks.1.conv",
         "stages.1.blocks.0.conv",
         "stages.1.blocks.1.conv"}
    ));
    EXPECT_EQ(
        stages.names,
        (Names{"stages.0.blocks.0", "stages.0.blocks.1", "stages.1.blocks.0", "stages.1.blocks.1"})
    );
}

TEST(Units, a_block_is_not_divided) {
    Names const sequence{"0.0", "0.1", "0.2", "1.0", "1.1", "1.2"};
    EXPECT_EQ(units_of(with_modules(sequence)).names, (Names{"0", "1"})) << "modules in a row";
    Names const experts{
        "h.0.attn", "h.0.mlp.0.up", "h.0.mlp.1.up", "h.1.attn", "h.1.mlp.0.up", "h.1.mlp.1.up"};
    EXPECT_EQ(units_of(with_modules(experts)).names, (Names{"h.0", "h.1"}));
    Names const halves{"0.0.attn", "0.1.up", "0.1.down", "1.0.attn", "1.1.up", "1.1.down"};
    EXPECT_EQ(units_of(with_modules(halves)).names, (Names{"0", "1"})) << "parts that differ";
}

TEST(Units, a_number_without_siblings_is_none) {
    Units const units = units_of(with_modules({"blocks.0.2.conv", "blocks.0.3.conv"}));
    EXPECT_EQ(units.names, (Names{"blocks.0.2", "blocks.0.3"}));
}

TEST(Units, without_modules_what_repeats_is_one) {
    Trace trace = with_modules({"", "", "", "", "", "", ""});
    Names const producers{"embedding", "norm", "mm", "norm", "mm", "norm", "mm"};
    for (std::size_t i = 0; i < producers.size(); ++i) {
        trace.values[i].slot.producer = producers[i];
    }
    Units const units = units_of(trace);
    EXPECT_EQ(units.names, (Names{"repeat.0", "repeat.1", "repeat.2"}));
    EXPECT_EQ(units.of_value, (Of{std::nullopt, 0, 0, 1, 1, 2, 2}));
}

TEST(Units, layers_are_what_repeats_where_modules_have_few_values) {
    Trace trace = with_modules({"0.0", "", "", "", "", "5.0"});  // Sequential(Linear, ReLU) each
    for (TraceValue& value : trace.values) {
        value.slot.producer = "relu";
    }
    EXPECT_EQ(units_of(trace).names, (Names{"0", "5"}));
    EXPECT_EQ(units_of_layers(trace).names.size(), 6U);
    trace.values[2].slot.producer = "other";
    trace.values[4].slot.producer = "another";
    EXPECT_EQ(units_of_layers(trace).names, (Names{"0", "5"})) << "no more values repeat";
}

TEST(Units, where_nothing_repeats_there_are_none) {
    EXPECT_TRUE(units_of(with_modules({"a", "b", "c"})).names.empty());
    EXPECT_TRUE(units_of(Trace()).names.empty());
}

TEST(Units, a_point_that_saves_nothing_is_of_the_unit_before) {
    Trace trace = with_modules({"h.0", "h.1"});
    trace.points.insert(trace.points.begin() + 1, TracePoint{});
    EXPECT_EQ(units_of(trace).of_point, (Of{0, 0, 1, 1, 0}));
}

}  // namespace
}  // namespace spillway
