// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/session/planned_operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace spillway {
namespace {

class PlannedOperatorsTest : public testing::Test {
  protected:
    /// Of an entry under that plan, after recipes that used the first so many operators; `ran`: the
    /// entry before made values again.
    bool are_all_recorded(std::int64_t plan, std::size_t used, bool ran = true) {
        OperatorSet set;
        for (std::size_t i = 0; i < used; ++i) {
            set.insert(&facts_[i]);
        }
        made_again_ += ran ? 1 : 0;
        known_ = operators_.to_record(plan, made_again_, [&] { return set; });
        return known_ == nullptr;
    }

    OperatorFacts facts_[3] = {facts("aten::gelu"), facts("aten::mul"), facts("aten::sin")};
    PlannedOperators operators_;
    std::shared_ptr<OperatorSet const> known_;
    std::int64_t made_again_ = 0;

  private:
    static OperatorFacts facts(char const* name) {
        char const* const overload = std::string(name) == "aten::mul" ? "Tensor" : "";
        return OperatorFacts(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
    }
};

TEST_F(PlannedOperatorsTest, all_until_no_other_is_used) {
    EXPECT_TRUE(are_all_recorded(1, 0)) << "the plan is new";
    EXPECT_TRUE(are_all_recorded(1, 2));
    EXPECT_TRUE(are_all_recorded(1, 2));
    EXPECT_FALSE(are_all_recorded(1, 2));
    EXPECT_EQ(*known_, (OperatorSet{&facts_[0], &facts_[1]}));
    EXPECT_FALSE(are_all_recorded(1, 3)) << "recorded under another plan";
}

TEST_F(PlannedOperatorsTest, an_entry_that_made_nothing_again_teaches_nothing) {
    EXPECT_TRUE(are_all_recorded(1, 1)) << "by the operators that went without a plan";
    for (int i = 0; i < 4; ++i) {
        EXPECT_TRUE(are_all_recorded(1, 1, false)) << "an evaluation";
    }
    EXPECT_TRUE(are_all_recorded(1, 2));
    EXPECT_TRUE(are_all_recorded(1, 2, false));
    EXPECT_TRUE(are_all_recorded(1, 2));
    EXPECT_FALSE(are_all_recorded(1, 2));
    EXPECT_EQ(known_->size(), 2U);
}

TEST_F(PlannedOperatorsTest, another_plan_begins_again) {
    for (int i = 0; i < 3; ++i) {
        (void)are_all_recorded(1, 1);
    }
    EXPECT_NE(known_, nullptr);
    EXPECT_TRUE(are_all_recorded(2, 1));
}

TEST_F(PlannedOperatorsTest, all_where_the_plan_was_not_enough) {
    for (int i = 0; i < 3; ++i) {
        (void)are_all_recorded(1, 1);
    }
    operators_.give_up();
    EXPECT_TRUE(are_all_recorded(1, 1));
    EXPECT_TRUE(are_all_recorded(2, 1));
}

}  // namespace
}  // namespace spillway
