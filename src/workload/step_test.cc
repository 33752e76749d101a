// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "workload/step.h"

#include "workload/operators.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

/// A byte a nanosecond; a product's operation, too.
constexpr StepRates kSlow{
    .flop_per_s = 1e9,
    .memory_bytes_per_s = 1e9,
    .parameter_bytes = 4,
    .gradient_bytes = 4,
    .optimizer_bytes = 8};

/// linear 128 -> 256, GELU, dropout, linear 256 -> 128, sum with the input of the first.
/// Tensors of 4 rows: 2048, 4096, 4096, 4096 and a mask of 1024, 2048, 2048 bytes.
Tape two_layers() {
    Tape tape;
    TapeTensor const outside = tape.input(4, kInt64);
    TapeTensor const x = add_embedding(tape, "in", outside, 4, 128, 0, kFloat32);
    TapeTensor y = add_linear(tape, "h.0", x, 4, 128, 256, false);
    y = add_activation(tape, "h.1", "GeluBackward0", y, 4 * 256);
    y = add_dropout(tape, "h.2", y, 4 * 256, 0.1);
    y = add_linear(tape, "h.3", y, 4, 256, 128, false);
    add_sum(tape, "h.4", x, y, 4 * 128);
    return tape;
}

Trace step() {
    Result<Trace> const made = make_step("two layers", two_layers(), kSlow);
    EXPECT_TRUE(made.ok()) << made.error().message();
    return *made;
}

TEST(ModelStep, saves_what_autograd_saves_in_its_order) {
    Trace const trace = step();
    ASSERT_EQ(trace.values.size(), 5U);
    EXPECT_EQ(trace.values[0].slot, (Slot{"input", 0, 0}));
    EXPECT_EQ(trace.values[1].slot, (Slot{"EmbeddingBackward0", 0, 0}));
    EXPECT_EQ(trace.values[2].slot, (Slot{"MmBackward0", 0, 0}));
    EXPECT_EQ(trace.values[3].slot, (Slot{"NativeDropoutBackward0", 1, 0}));
    EXPECT_EQ(trace.values[4].slot, (Slot{"NativeDropoutBackward0", 0, 0}));
    EXPECT_EQ(trace.values[2].module, "h.1") << "that saves it";
    EXPECT_EQ(trace.values[2].size_bytes, 4096);
    EXPECT_EQ(trace.values[3].size_bytes, 1024);
    EXPECT_EQ(trace.values[3].tensor_class, TensorClass::mask);
    EXPECT_EQ(trace.values[0].size_bytes, 512) << "as the allocator rounds";
}

TEST(ModelStep, forward_holds_what_it_still_reads) {
    Trace const trace = step();
    ASSERT_EQ(trace.points.size(), 6U + 6U + 1U);
    EXPECT_EQ(trace.points[1].saved, std::vector{ValueId{1}});
    EXPECT_TRUE(trace.points[1].unshared.empty()) << "the sum reads it";
    EXPECT_EQ(trace.points[5].unshared, std::vector{ValueId{1}});
    EXPECT_EQ(trace.points[2].unshared, std::vector{ValueId{2}});
    for (TracePoint const& point : trace.points) {
        for (ValueId const id : point.unshared) {
            EXPECT_NE(id, ValueId{0}) << "the program holds its input";
        }
    }
}

TEST(ModelStep, backward_needs_and_drops_in_the_other_order) {
    Trace const trace = step();
    EXPECT_TRUE(trace.points[6].needed.empty()) << "a sum";
    EXPECT_EQ(trace.points[7].needed, std::vector{ValueId{4}});
    EXPECT_EQ(trace.points[8].needed, std::vector{ValueId{3}});
    EXPECT_EQ(trace.points[9].needed, std::vector{ValueId{2}});
    EXPECT_EQ(trace.points[10].needed, std::vector{ValueId{1}});
    EXPECT_EQ(trace.points[10].dropped, std::vector{ValueId{1}});
    EXPECT_EQ(trace.points[12].phase, Phase::update);
}

TEST(ModelStep, floors_are_states_temporaries_and_gradients) {
    Trace const trace = step();
    constexpr std::int64_t kWeights = 2 * 128 * 256;
    constexpr std::int64_t kStates = kWeights * (4 + 8);
    EXPECT_EQ(trace.points[0].floor_bytes, kStates + 2048) << "what the embedding makes";
    EXPECT_EQ(trace.points[1].floor_bytes, kStates + 4096) << "its result: no value before GELU";
    EXPECT_EQ(trace.points[2].floor_bytes, kStates + 4096) << "GELU's result";
    EXPECT_EQ(trace.points[3].floor_bytes, kStates + 4096 + 4096) << "dropout reads and writes";
    EXPECT_EQ(trace.points[4].floor_bytes, kStates + 2048);
    EXPECT_EQ(trace.points[5].floor_bytes, kStates + 2048 + 2048);
    // The sum's gradient, the embedding's, which is it; the second linear's is shared.
    EXPECT_EQ(trace.points[6].floor_bytes, kStates + 2048 + 2048);
    // The second linear's: of its weight, of what it reads, and the embedding's.
    EXPECT_EQ(trace.points[7].floor_bytes, kStates + kWeights / 2 * 4 + 4096 + 2048);
    EXPECT_EQ(trace.points[8].floor_bytes, kStates + kWeights / 2 * 4 + 4096 + 4096 + 2048);
    EXPECT_EQ(trace.points[12].floor_bytes, kStates + kWeights * 4);
}

TEST(ModelStep, an_operator_takes_the_longer_of_its_products_and_its_memory) {
    Trace const trace = step();
    constexpr std::int64_t kFlop = 2 * 4 * 128 * 256;
    EXPECT_EQ(trace.points[1].duration_ns, kFlop) << "2048 + 4096 + 131072 bytes take less";
    EXPECT_EQ(trace.points[10].duration_ns, 2 * kFlop);
    EXPECT_EQ(trace.points[2].duration_ns, 4096 + 4096);
    EXPECT_EQ(trace.points[9].duration_ns, 4096 + 4096 + 4096) << "and what it saved";
    EXPECT_EQ(trace.points[12].duration_ns, 2 * 128 * 256 * (2 * 4 + 4 + 2 * 8));
}

TEST(ModelStep, recipes_begin_at_saved_values) {
    Trace const trace = step();
    EXPECT_FALSE(trace.values[0].recipe);
    EXPECT_EQ(trace.values[0].why_no_recipe, "made outside the step");
    EXPECT_EQ(trace.values[3].why_no_recipe, "made of random numbers");
    RecipeShape const linear{.sources = {ValueId{1}}, .calls = 1, .duration_ns = 2 * 4 * 128 * 256};
    EXPECT_EQ(trace.values[2].recipe, linear);
    // GELU, which is no value, and the mask.
    RecipeShape const dropout{
        .sources = {ValueId{2}, ValueId{3}},
        .calls = 2,
        .duration_ns = trace.points[2].duration_ns + trace.points[3].duration_ns,
        .transient_bytes = 4096 + 1024};
    EXPECT_EQ(trace.values[4].recipe, dropout);
}

TEST(ModelStep, in_place_takes_the_memory_of_what_it_reads) {
    Tape tape;
    TapeTensor x = add_linear(tape, "a", tape.input(128, kFloat32), 1, 128, 128, false);
    x = add_relu(tape, "b", x, 128, /*is_in_place=*/true);
    add_linear(tape, "c", x, 1, 128, 128, false);
    Result<Trace> const trace = make_step("", tape, kSlow);
    ASSERT_TRUE(trace.ok());
    EXPECT_EQ(trace->points[0].floor_bytes - 2 * 128 * 128 * 12, 512);
    EXPECT_EQ(trace->points[1].floor_bytes - 2 * 128 * 128 * 12, 0) << "the value is all there is";
    EXPECT_EQ(trace->values[1].tensor_class, TensorClass::other) << "two savers";
}

TEST(ModelStep, too_large_is_refused) {
    Tape tape;
    add_linear(tape, "", tape.input(std::int64_t{1} << 50, kFloat32), 1, 1, 1, false);
    Result<Trace> const trace = make_step("", tape, kSlow);
    ASSERT_FALSE(trace.ok());
    EXPECT_EQ(
        trace.error().message(),
        "trace: the step is too large: value 0 has an impossible size: 4503599627370496 B"
    );
}

}  // namespace
}  // namespace spillway
