// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/transfer_times.h"

#include "policy/chain_test.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway {
namespace {

using Ids = std::vector<ValueId>;

TEST(TransferTimes, the_fewest_that_fit_are_from_the_front_and_count_what_is_gone) {
    Trace const trace = chain(6);
    StepView const step(trace);
    Ids const order{ValueId{2}, ValueId{0}, ValueId{4}, ValueId{1}};
    std::int64_t const four = kChainFloorBytes + 4 * kChainSetBytes;
    EXPECT_EQ(fewest_that_fit(step, {}, order, four), (Ids{ValueId{2}, ValueId{0}}));
    EXPECT_EQ(
        fewest_that_fit(step, {}, order, four - 1), (Ids{ValueId{2}, ValueId{0}, ValueId{4}})
    );
    EXPECT_EQ(fewest_that_fit(step, {ValueId{3}}, order, four), Ids{ValueId{2}});
    EXPECT_EQ(fewest_that_fit(step, {ValueId{3}, ValueId{1}}, order, four), Ids{});
    EXPECT_EQ(fewest_that_fit(step, {}, order, 1), order) << "as far as it goes";
    EXPECT_EQ(fewest_that_fit(step, {}, order, 0), Ids{}) << "no limit";
}

}  // namespace
}  // namespace spillway
