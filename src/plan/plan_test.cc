// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "plan/plan.h"

#include "machine/machine.h"
#include "trace/trace.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

Slot const kFirst{"aten::addmm", 0, 0};
Slot const kSecond{"aten::addmm", 0, 1};

Plan two_fates() {
    Plan plan;
    plan.fates[kFirst] = {FateKind::move, Pool::host};
    plan.fates[kSecond] = {FateKind::keep, Pool::nvme};
    plan.predicted_step_ns = 100;
    plan.bound_step_ns = 90;
    return plan;
}

Trace two_values() {
    Trace trace;
    trace.values = {{.slot = kFirst, .size_bytes = 1}, {.slot = kSecond, .size_bytes = 1}};
    return trace;
}

Machine with_host() {
    Machine machine;
    machine.tiers = {{"pinned", Pool::host, 1}};
    return machine;
}

std::string refusal(Plan const& plan) {
    Result<void> const verdict = validate(plan, two_values(), with_host());
    return verdict ? "" : verdict.error().message();
}

TEST(Plan, text_gives_the_same_plan) {
    Result<Plan> const parsed = parse_plan(to_json_text(two_fates()));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message();
    EXPECT_EQ(*parsed, two_fates());
}

TEST(Plan, fits_its_trace_and_machine) {
    EXPECT_EQ(refusal(two_fates()), "");
    EXPECT_EQ(refusal(Plan{}), "");
}

TEST(Plan, refuses_a_slot_that_the_trace_lacks) {
    Plan plan = two_fates();
    plan.fates[{"aten::mul", 1, 3}] = {};
    EXPECT_EQ(refusal(plan), "plan: the trace has no value at aten::mul:1#3");
}

TEST(Plan, refuses_a_pool_that_the_machine_lacks) {
    Plan plan = two_fates();
    plan.fates[kFirst].pool = Pool::nvme;
    EXPECT_EQ(refusal(plan), "plan: aten::addmm:0#0 moves to nvme, which the machine has not");
    plan.fates[kFirst].pool = Pool::device;
    EXPECT_EQ(refusal(plan), "plan: aten::addmm:0#0 moves to the device, where it is");
}

TEST(Plan, refuses_a_prediction_below_its_bound) {
    Plan plan = two_fates();
    plan.bound_step_ns = 101;
    EXPECT_EQ(refusal(plan), "plan: the predicted step time is below its lower bound");
}

/// Both are saved in one point; the second is needed before the first.
Trace with_points() {
    Trace trace = two_values();
    trace.points = {
        {.saved = {ValueId{0}}},
        {.saved = {ValueId{1}}},
        {.phase = Phase::backward, .needed = {ValueId{1}}},
        {.phase = Phase::backward, .needed = {ValueId{0}}}};
    return trace;
}

std::string refusal_of_times(Slot const& slot, Fate const& fate) {
    Plan plan;
    plan.fates[slot] = fate;
    Result<void> const verdict = validate(plan, with_points(), with_host());
    return verdict ? "" : verdict.error().message();
}

TEST(Plan, a_value_leaves_after_it_was_saved) {
    EXPECT_EQ(refusal_of_times(kFirst, {FateKind::move, Pool::host, kSecond, {}}), "");
    EXPECT_EQ(
        refusal_of_times(kSecond, {FateKind::move, Pool::host, kFirst, {}}),
        "plan: aten::addmm:0#1 leaves at aten::addmm:0#0, before it is saved"
    );
    EXPECT_EQ(
        refusal_of_times(kFirst, {FateKind::move, Pool::host, Slot{"no", 0, 0}, {}}),
        "plan: aten::addmm:0#0 leaves at no:0#0, which the trace lacks"
    );
}

TEST(Plan, a_value_returns_at_a_need_before_its_own) {
    EXPECT_EQ(refusal_of_times(kFirst, {FateKind::move, Pool::host, {}, kSecond}), "");
    EXPECT_EQ(
        refusal_of_times(kSecond, {FateKind::move, Pool::host, {}, kFirst}),
        "plan: aten::addmm:0#1 returns at aten::addmm:0#0, which is needed after it"
    );
    EXPECT_EQ(
        refusal_of_times(kFirst, {FateKind::move, Pool::host, {}, Slot{"no", 0, 0}}),
        "plan: aten::addmm:0#0 returns at no:0#0, which is never needed"
    );
    EXPECT_EQ(
        refusal_of_times(kFirst, {FateKind::keep, Pool::host, kSecond, {}}),
        "plan: aten::addmm:0#0 is kept, and has a time to leave or return"
    );
}

TEST(Plan, what_is_made_again_needs_a_recipe_and_has_no_time_to_return) {
    Trace trace = with_points();
    Plan plan;
    plan.fates[kSecond] = {.kind = FateKind::recompute};
    auto const refusal = [&] {
        Result<void> const verdict = validate(plan, trace, with_host());
        return verdict ? "" : verdict.error().message();
    };
    EXPECT_EQ(refusal(), "plan: aten::addmm:0#1 is made again, and the trace has no recipe of it");
    trace.values[1].recipe = RecipeShape{.sources = {ValueId{0}}};
    EXPECT_EQ(refusal(), "");
    EXPECT_EQ(*parse_plan(to_json_text(plan)), plan);
    plan.fates[kSecond].returns = kFirst;
    EXPECT_EQ(refusal(), "plan: aten::addmm:0#1 is made again, and has a time to return");
}

TEST(Plan, a_codec_is_of_a_value_that_moves) {
    Trace trace = with_points();
    trace.values[0] = {.slot = kFirst, .size_bytes = 4096, .dtype = "float32"};
    Plan plan;
    auto const refusal = [&](Fate const& fate) {
        plan.fates[kFirst] = fate;
        Result<void> const verdict = validate(plan, trace, with_host());
        return verdict ? "" : verdict.error().message();
    };
    Fate const moved{.kind = FateKind::move, .pool = Pool::host, .codec = "affine4:group=256"};
    EXPECT_EQ(refusal(moved), "");
    EXPECT_EQ(*parse_plan(to_json_text(plan)), plan);
    Fate fate = moved;
    fate.codec = "mp3";
    EXPECT_EQ(refusal(fate).substr(0, 45), "plan: aten::addmm:0#0: mp3: no such codec; th");
    fate = {.kind = FateKind::keep, .codec = "affine4"};
    EXPECT_EQ(refusal(fate), "plan: aten::addmm:0#0 has a codec, and does not move");
    fate = moved;
    fate.codec = "sign";
    EXPECT_NE(refusal(fate), "") << "not the result of a ReLU";
    fate.codec = "lossless";
    EXPECT_NE(refusal(fate), "") << "of no known size";
    trace.values[0].tensor_class = TensorClass::index;
    EXPECT_NE(refusal(moved), "") << "integers";
    trace.values[0].tensor_class = TensorClass::linear_input;
    trace.values[0].dtype = "int64";
    EXPECT_NE(refusal(moved), "") << "of a type that the codec does not take";
}

TEST(Plan, parser_refuses_two_fates_for_a_slot) {
    std::string text = to_json_text(two_fates());
    text.replace(text.find("\"occurrence\":1"), 14, "\"occurrence\":0");
    Result<Plan> const parsed = parse_plan(text);
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().message(), "plan: fates[1] has the slot of another fate");
}

TEST(Plan, parser_refuses_a_kept_value_with_a_pool) {
    std::string text = to_json_text(two_fates());
    text.replace(text.find("\"move\""), 6, "\"keep\"");
    Result<Plan> const parsed = parse_plan(text);
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().message(), "plan: fates[0] is kept, but has the field pool");
}

}  // namespace
}  // namespace spillway
