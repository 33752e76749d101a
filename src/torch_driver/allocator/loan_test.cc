// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/allocator/loan.h"

#include "base/units.h"
#include "memory/cpu_device.h"
#include "torch_driver/allocator/nested_budget.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace spillway {
namespace {

/// A session that lends, and has nothing that could leave.
class Lender final : public BudgetOwner {
  public:
    explicit Lender(std::int64_t limit_bytes)
        : device(CpuDevice::open({.limit_bytes = limit_bytes}).value()),
          budget(std::make_shared<NestedBudget>(device, *this)) {}

    bool caps() const override { return is_capping; }
    bool make_room(std::int64_t) override { return false; }
    bool make_room_for_another(std::int64_t) override { return false; }
    std::string const& opened_at() const override { return place; }

    std::shared_ptr<CpuDevice> device;
    std::shared_ptr<NestedBudget> budget;
    bool is_capping = true;
    std::string place = "lender.py:1";
};

struct LoanTest : testing::Test {
    /// Of the borrower's device; null: no room.
    void* allocate(std::int64_t size_bytes) { return borrower->try_allocate(size_bytes, {}); }

    Lender lender{16_MiB};
    std::shared_ptr<CpuDevice> borrower = CpuDevice::open({.limit_bytes = 64_MiB}).value();
    Loan loan{borrower};
};

TEST_F(LoanTest, without_a_lender_nothing_bounds_the_borrower) {
    EXPECT_EQ(loan.lender(), nullptr);
    EXPECT_EQ(loan.refusal(1_GiB), std::nullopt);
    EXPECT_FALSE(loan.extend(1_MiB, false));
    EXPECT_EQ(loan.trim(), 0);
}

TEST_F(LoanTest, what_the_borrower_had_before_is_its_own) {
    void* const before = allocate(4_MiB);
    loan.begin(lender.budget);
    EXPECT_EQ(lender.device->used_bytes(), 0);
    EXPECT_EQ(allocate(1_MiB), nullptr) << "nothing is lent yet";
    borrower->free(before);
}

TEST_F(LoanTest, what_is_lent_counts_with_the_lender_until_it_is_given_back) {
    loan.begin(lender.budget);
    ASSERT_TRUE(loan.extend(8_MiB, false));
    EXPECT_GE(lender.device->used_bytes(), 8_MiB);
    void* const block = allocate(8_MiB);
    ASSERT_NE(block, nullptr);
    EXPECT_LT(loan.trim(), 1_MiB) << "all of it is in use";
    borrower->free(block);
    EXPECT_GE(loan.trim(), 8_MiB);
    EXPECT_EQ(lender.device->used_bytes(), 0);
}

TEST_F(LoanTest, a_lender_that_has_no_room_is_the_one_that_refuses) {
    loan.begin(lender.budget);
    EXPECT_FALSE(loan.extend(32_MiB, true));
    Refusal const refusal = loan.refusal(32_MiB).value();
    EXPECT_EQ(refusal.why, NoRoom::outer_full);
    EXPECT_EQ(refusal.limit_bytes, 16_MiB);
    EXPECT_EQ(refusal.opened_at, "lender.py:1");
    EXPECT_FALSE(loan.is_asking());
}

TEST_F(LoanTest, where_the_borrowers_own_budget_is_short_the_lender_is_not_asked) {
    loan.begin(lender.budget);
    EXPECT_FALSE(loan.extend(128_MiB, true));
    EXPECT_EQ(loan.refusal(128_MiB), std::nullopt);
    EXPECT_EQ(lender.device->used_bytes(), 0);
}

TEST_F(LoanTest, a_second_lender_waits_until_the_first_caps_no_more) {
    Lender second(32_MiB);
    loan.begin(lender.budget);
    loan.begin(second.budget);
    EXPECT_EQ(loan.lender(), lender.budget);
    ASSERT_TRUE(loan.extend(4_MiB, false));
    lender.is_capping = false;
    EXPECT_EQ(loan.lender(), nullptr);
    EXPECT_EQ(lender.device->used_bytes(), 0) << "what was lent came back";
    loan.begin(second.budget);
    EXPECT_EQ(loan.lender(), second.budget);
}

TEST_F(LoanTest, gives_all_back_when_it_ends) {
    {
        Loan ends(borrower);
        ends.begin(lender.budget);
        ASSERT_TRUE(ends.extend(4_MiB, false));
    }
    EXPECT_EQ(lender.device->used_bytes(), 0);
    void* const block = allocate(32_MiB);
    EXPECT_NE(block, nullptr) << "only its own budget bounds it";
    borrower->free(block);
}

}  // namespace
}  // namespace spillway
