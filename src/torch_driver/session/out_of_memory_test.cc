// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/out_of_memory.h"

#include "base/units.h"
#include "memory/cpu_device.h"

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
    EXPECT_TRUE(has(words, "(this is the budget of a Spillway session, not the machine's memory; "))
        << words;
    EXPECT_FALSE(has(words, "session.close()")) << words;
    EXPECT_FALSE(has(words, "was left")) << words;
}

TEST(OutOfMemoryTest, of_a_session_that_was_left_it_says_what_still_holds_it) {
    std::string const words = words_of(
        {.place = "after the forward of step 1",
         .why = "why",
         .estimate = "",
         .caps_from_open = false,
         .is_left = true}
    );
    EXPECT_TRUE(has(words, "The session was left")) << words;
    EXPECT_TRUE(has(words, "session, which session.close() ends, not the machine's memory; "))
        << words;
}

}  // namespace
}  // namespace spillway
