// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "base/refusal.h"

#include "base/units.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

/// 3 MiB more, of a limit of 10 MiB of which 8 are in use.
Refusal under_ten() {
    return {
        .why = NoRoom::nothing_to_move,
        .asked_bytes = 3_MiB,
        .used_bytes = 8_MiB,
        .limit_bytes = 10_MiB,
        .needed_bytes = 11_MiB};
}

TEST(Refusal, words_give_what_was_asked_what_is_in_use_and_how_much_is_missing) {
    EXPECT_EQ(
        words_of(under_ten(), Face::python),
        "asked for 3.0 MiB with 8.0 MiB of 10.0 MiB in use: 1.0 MiB too few; at least 11.0 MiB are "
        "needed so far (11534336 bytes), and nothing else can leave"
    );
}

TEST(Refusal, what_can_leave_is_told_beside_what_is_in_use) {
    Refusal refusal = under_ten();
    refusal.why = NoRoom::no_pool;
    refusal.freed_bytes = 6_MiB;
    EXPECT_EQ(
        words_of(refusal, Face::python),
        "asked for 3.0 MiB with 8.0 MiB of 10.0 MiB in use, 6.0 MiB of which can leave: 1.0 MiB "
        "too "
        "few; at least 11.0 MiB are needed so far (11534336 bytes), and there is no host or NVMe "
        "budget to move anything to (give an NVMe folder, nvme=, or host_budget=)"
    );
}

TEST(Refusal, a_device_without_a_limit_has_none_to_miss) {
    Refusal refusal = under_ten();
    refusal.limit_bytes = 0;
    EXPECT_EQ(words_of(refusal, Face::python).find("too few"), std::string::npos);
}

TEST(Refusal, why_nothing_leaves_is_the_end_of_the_words) {
    Refusal refusal = under_ten();
    auto const ends_with = [&refusal](std::string const& end) {
        std::string const words = words_of(refusal, Face::program);
        EXPECT_TRUE(words.ends_with(" (11534336 bytes), and " + end)) << words;
    };
    refusal.held_bytes = 2_MiB;
    ends_with(
        "nothing else can leave: 2.0 MiB of saved tensors are in use elsewhere, too (by the "
        "operator that runs, a variable, a list, a module's attribute or a checkpoint)"
    );
    refusal.why = NoRoom::moves_nothing;
    ends_with("the policy moves nothing");
    refusal.why = NoRoom::pools_full;
    refusal.host = {PoolState::full, ""};
    ends_with("the host budget is full");
    refusal.nvme = {PoolState::failed, "no space left"};
    ends_with("the host budget is full, and NVMe takes no more (no space left)");
    refusal.host = {};
    refusal.nvme = {PoolState::too_short, ""};
    ends_with("what is left is too long for NVMe");
    refusal.is_in_pieces = true;
    std::string const words = words_of(refusal, Face::program);
    EXPECT_NE(words.find("free memory is in pieces, none of them so long"), std::string::npos);
    EXPECT_TRUE(words.ends_with("and what is left is too long for NVMe")) << words;
}

}  // namespace
}  // namespace spillway
