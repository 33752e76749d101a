// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/out_of_memory.h"

#include "base/units.h"
#include "memory/cpu_device.h"
#include "spillway/session_error.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

std::string words_of(RefusedAllocation const& refused) {
    auto const device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
    try {
        raise_out_of_memory(refused, *device);
    } catch (c10::OutOfMemoryError const& error) {
        return error.what_without_backtrace();
    }
}

bool has(std::string const& text, std::string const& part) {
    return text.find(part) != std::string::npos;
}

TEST(OutOfMemoryTest, an_error_says_where_and_why_and_has_torchs_own_words) {
    std::string const words = words_of(
        {.place = "step 3, forward", .why = "aten::mm asked", .estimate = " More is needed."}
    );
    EXPECT_EQ(words.find("step 3, forward: aten::mm asked. More is needed. "), 0U) << words;
    EXPECT_TRUE(has(words, "DefaultCPUAllocator: can't allocate memory")) << words;
    EXPECT_FALSE(has(words, "ends")) << words;
    EXPECT_FALSE(has(words, "was left")) << words;
}

TEST(OutOfMemoryTest, of_a_session_that_was_left_it_says_what_still_holds_it) {
    std::string const words = words_of(
        {.place = "after the forward of step 1",
         .why = "why",
         .estimate = "",
         .face = Face::python,
         .caps_from_open = false,
         .is_left = true}
    );
    EXPECT_TRUE(has(words, "The session was left")) << words;
    EXPECT_TRUE(has(words, ", which its close() ends")) << words;
}

TEST(OutOfMemoryTest, python_is_told_whose_budget_it_is_and_a_program_its_flag) {
    RefusedAllocation refused{
        .place = "step 3, forward", .why = "why", .estimate = "", .face = Face::python};
    refused.refusal.opened_at = "train.py:12";
    std::string const python = words_of(refused);
    EXPECT_TRUE(has(python, "the device_budget of the spillway.session opened at train.py:12"))
        << python;
    refused.face = Face::program;
    std::string const program = words_of(refused);
    EXPECT_TRUE(has(program, "--device-budget")) << program;
    EXPECT_FALSE(has(program, "report()")) << program;
}

TEST(OutOfMemoryTest, an_error_has_what_its_words_say) {
    auto const device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
    Refusal const refusal{.needed_bytes = 2_MiB, .step = 3, .phase = Phase::backward};
    try {
        raise_out_of_memory(
            {.place = "a place", .why = "why", .estimate = "", .refusal = refusal}, *device
        );
    } catch (c10::Error const& error) {  // as who knows torch's alone
        auto const* const of_budget = dynamic_cast<OutOfBudget const*>(&error);
        ASSERT_NE(of_budget, nullptr);
        EXPECT_EQ(of_budget->refusal(), refusal);
        auto const* const in_step = dynamic_cast<InStep const*>(&error);
        ASSERT_NE(in_step, nullptr);
        EXPECT_EQ(in_step->step(), 3);
        EXPECT_EQ(in_step->phase(), Phase::backward);
    }
}

}  // namespace
}  // namespace spillway
