// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/qpo_plan.h"

#include "policy/chain_test.h"
#include "policy/qpo.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace spillway {
namespace {

constexpr std::int64_t kQpoLayers = 8;
constexpr std::string_view kQpoEight = "affine8:group=256,stochastic";
constexpr std::string_view kQpoFour = "affine4:group=256,stochastic";

Trace qpo_chain(TensorClass tensor_class, std::string const& dtype = "bfloat16") {
    Trace trace = chain(kQpoLayers);
    for (TraceValue& value : trace.values) {
        value.tensor_class = tensor_class;
        value.dtype = dtype;
    }
    return trace;
}

/// Encodes a layer's value in 4 us.
Machine qpo_machine(double rate_bytes_per_s) {
    Machine machine = fast_machine(rate_bytes_per_s);
    machine.device.memory_bytes_per_s = 1e12;
    return machine;
}

Result<Plan> qpo_plan_of(Trace const& trace, Machine const& machine) {
    Budgets const budgets{
        .device_bytes = kChainFloorBytes + 4 * kChainSetBytes,
        .host_bytes = 2 * kQpoLayers * kChainSetBytes};
    return make_plan({"qpo", {}}, trace, machine, budgets);
}

/// The codecs that values leave by, "raw" of those that leave as they are.
std::set<std::string> qpo_codecs_of(Result<Plan> const& plan) {
    std::set<std::string> codecs;
    EXPECT_TRUE(plan.ok()) << plan.error().message();
    if (plan.ok()) {
        for (auto const& [slot, fate] : plan->fates) {
            if (fate.kind == FateKind::move) {
                codecs.insert(fate.codec.empty() ? "raw" : fate.codec);
            }
        }
    }
    return codecs;
}

std::set<std::string> one(std::string_view codec) {
    return {std::string(codec)};
}

TEST(QpoPlan, the_widest_code_that_hides_is_taken) {
    Trace const trace = qpo_chain(TensorClass::linear_input);
    // A layer computes for 1 ms; raw, its value takes a tenth of that, twice and four times as
    // much on the link.
    EXPECT_EQ(qpo_codecs_of(qpo_plan_of(trace, qpo_machine(1e10))), one("raw"));
    EXPECT_EQ(qpo_codecs_of(qpo_plan_of(trace, qpo_machine(0.5e9))), one(kQpoEight));
    EXPECT_EQ(qpo_codecs_of(qpo_plan_of(trace, qpo_machine(0.25e9))), one(kQpoFour));
    EXPECT_EQ(qpo_codecs_of(qpo_plan_of(trace, qpo_machine(0.1e9))), one(kQpoFour))
        << "none hides: the narrowest is the quickest";
}

TEST(QpoPlan, a_class_that_may_lose_less_is_never_narrower_than_its_own_code) {
    Machine const slow = qpo_machine(0.25e9);
    for (TensorClass const each : {TensorClass::norm_input, TensorClass::activation_input}) {
        EXPECT_EQ(qpo_codecs_of(qpo_plan_of(qpo_chain(each), slow)), one(kQpoEight));
    }
    for (TensorClass const each : {TensorClass::attention, TensorClass::other}) {
        EXPECT_EQ(qpo_codecs_of(qpo_plan_of(qpo_chain(each), slow)), one("raw"));
    }
    EXPECT_EQ(qpo_codecs_of(qpo_plan_of(qpo_chain(TensorClass::mask, "bool"), slow)), one("mask"));
    EXPECT_EQ(qpo_codecs_of(qpo_plan_of(qpo_chain(TensorClass::relu_output), slow)), one("sign"));
}

TEST(QpoPlan, norms_narrow_after_linear_layers) {
    Trace trace = qpo_chain(TensorClass::linear_input);
    for (std::size_t i = 0; i < trace.values.size(); i += 2) {
        trace.values[i].tensor_class = TensorClass::norm_input;
    }
    std::set<std::string> const some = qpo_codecs_of(qpo_plan_of(trace, qpo_machine(0.5e9)));
    EXPECT_EQ(some, (std::set<std::string>{"raw", std::string(kQpoEight)}));
    std::set<std::string> const most = qpo_codecs_of(qpo_plan_of(trace, qpo_machine(0.15e9)));
    EXPECT_EQ(most, (std::set<std::string>{std::string(kQpoEight), std::string(kQpoFour)}));
}

TEST(QpoPlan, without_a_tight_budget_nothing_is_encoded) {
    Budgets const budgets{.device_bytes = 0, .host_bytes = 1'000'000'000};
    Result<Plan> const plan =
        make_plan({"qpo", {}}, qpo_chain(TensorClass::linear_input), qpo_machine(0.25e9), budgets);
    EXPECT_EQ(qpo_codecs_of(plan), one("raw"));
}

TEST(QpoPlan, narrower_codes_shorten_the_step) {
    Trace const trace = qpo_chain(TensorClass::linear_input);
    Trace const exact = qpo_chain(TensorClass::other);
    Machine const slow = qpo_machine(0.25e9);
    Result<Plan> const coded = qpo_plan_of(trace, slow);
    Result<Plan> const raw = qpo_plan_of(exact, slow);
    ASSERT_TRUE(coded.ok() && raw.ok());
    EXPECT_LT(coded->predicted_step_ns * 5, raw->predicted_step_ns * 4);
    EXPECT_LE(coded->predicted_peak_bytes, kChainFloorBytes + 4 * kChainSetBytes);
}

TEST(QpoPlan, what_cannot_be_back_in_time_is_kept) {
    Trace const trace = qpo_chain(TensorClass::linear_input);
    StepView const step(trace);
    QpoSizes const raw = qpo_sizes(trace, {});
    auto const hidden = [&](double rate) {
        return qpo_hidden(step, raw, transfer_rates(fast_machine(rate), Pool::host)).size();
    };
    // Layer i is free at i + 1 ms, and needed 2 ms for each of the 7 - i after it from 8 ms on.
    EXPECT_EQ(hidden(1e10), 7U) << "the last is free at 8 ms, and needed then";
    // Out at 3, 5, 7, 9, 11 ms; back from 20, 18, 16, 14, 12 on: the sixth is out at 13, too late.
    EXPECT_EQ(hidden(0.5e9), 5U);
    QpoSizes const four = qpo_sizes(trace, qpo_widths().back());
    EXPECT_LT(four.away_bytes[0] * 38, kChainSetBytes * 10) << "4 of 16 bits, and ranges";
    EXPECT_EQ(qpo_hidden(step, four, transfer_rates(fast_machine(0.5e9), Pool::host)).size(), 7U);
}

TEST(QpoPlan, its_narrowest_widths_are_those_of_the_rule) {
    std::vector<QpoCodes> const widths = qpo_widths();
    ASSERT_EQ(widths.size(), 5U);
    EXPECT_EQ(widths.front(), QpoCodes{});
    for (std::size_t i = 0; i < kTensorClasses; ++i) {
        std::string_view const codec = qpo_codec(static_cast<TensorClass>(i));
        EXPECT_EQ(widths.back()[i], codec == "identity" ? "" : codec);
    }
}

TEST(QpoPlan, a_machine_of_unknown_memory_rate_is_refused) {
    Result<Plan> const plan = qpo_plan_of(qpo_chain(TensorClass::linear_input), fast_machine());
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, Errc::unsupported);
    EXPECT_NE(plan.error().message().find("memory_bytes_per_s"), std::string::npos);
}

TEST(QpoPlan, a_step_that_does_not_fit_says_what_is_missing) {
    Trace const trace = qpo_chain(TensorClass::linear_input);
    Result<Plan> const plan = make_plan(
        {"qpo", {}},
        trace,
        qpo_machine(1e9),
        {.device_bytes = kChainFloorBytes, .host_bytes = 1'000'000'000}
    );
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.error().code, Errc::out_of_memory);
}

}  // namespace
}  // namespace spillway
