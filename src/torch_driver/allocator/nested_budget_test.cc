// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/allocator/nested_budget.h"

#include "base/units.h"
#include "memory/cpu_device.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway {
namespace {

/// A session on the CPU with blocks that it may let go.
class Holder final : public BudgetOwner {
  public:
    explicit Holder(std::int64_t limit_bytes)
        : device(CpuDevice::open({.limit_bytes = limit_bytes}).value()),
          budget(std::make_shared<NestedBudget>(device, *this)) {}
    ~Holder() override {
        for (void* const block : blocks) {
            device->free(block);
        }
    }

    /// As the allocator and the loop do: borrows, then lets own blocks go, then takes back.
    bool allocate(std::int64_t size_bytes) {
        for (;;) {
            if (void* const block = device->try_allocate(size_bytes, {}); block != nullptr) {
                blocks.push_back(block);
                return true;
            }
            if (!budget->borrow(size_bytes, false) && !let_one_go() &&
                !budget->borrow(size_bytes, true)) {
                return false;
            }
        }
    }

    bool caps() const override { return is_capping; }
    std::string const& opened_at() const override { return place; }
    bool make_room(std::int64_t size_bytes) override {
        return budget->borrow(size_bytes, false) || let_one_go() ||
               budget->borrow(size_bytes, true);
    }
    bool make_room_for_another(std::int64_t) override { return let_one_go(); }

    std::shared_ptr<CpuDevice> device;
    std::shared_ptr<NestedBudget> budget;
    std::vector<void*> blocks;
    bool may_let_go = true;
    bool is_capping = true;
    std::string place;

  private:
    bool let_one_go() {
        if (!may_let_go || blocks.empty()) {
            return false;
        }
        device->free(blocks.back());
        blocks.pop_back();
        return true;
    }
};

TEST(NestedBudgetTest, what_is_allocated_inside_counts_in_both) {
    Holder outer(16_MiB);
    Holder inner(64_MiB);
    outer.place = "outer.py:1";
    NestedBudget::nest(inner.budget, outer.budget);
    EXPECT_TRUE(inner.allocate(6_MiB));
    EXPECT_EQ(inner.device->used_bytes(), 6_MiB);
    EXPECT_GE(outer.device->used_bytes(), 6_MiB);
    inner.may_let_go = false;
    EXPECT_FALSE(inner.allocate(12_MiB)) << "the outer budget bounds it";
    Refusal const refusal = inner.budget->refusal(12_MiB).value();
    EXPECT_EQ(refusal.why, NoRoom::outer_full);
    EXPECT_EQ(refusal.opened_at, outer.place) << "it is the outer one's budget";
    EXPECT_NE(words_of(refusal, Face::cpp).find("a session around this one"), std::string::npos);
}

TEST(NestedBudgetTest, the_inner_budget_holds_inside_a_larger_one) {
    Holder outer(64_MiB);
    Holder inner(8_MiB);
    NestedBudget::nest(inner.budget, outer.budget);
    inner.may_let_go = false;
    EXPECT_TRUE(inner.allocate(6_MiB));
    EXPECT_FALSE(inner.allocate(4_MiB));
    EXPECT_EQ(inner.budget->refusal(4_MiB), std::nullopt);
}

TEST(NestedBudgetTest, the_lender_lets_its_own_go_for_what_is_asked_inside) {
    Holder outer(16_MiB);
    Holder inner(64_MiB);
    NestedBudget::nest(inner.budget, outer.budget);
    EXPECT_TRUE(outer.allocate(8_MiB));
    EXPECT_TRUE(outer.allocate(6_MiB));
    EXPECT_TRUE(inner.allocate(7_MiB));
    EXPECT_EQ(outer.blocks.size(), 1U);
}

TEST(NestedBudgetTest, what_is_not_in_use_goes_back_to_a_lender_that_is_short) {
    Holder outer(16_MiB);
    Holder inner(64_MiB);
    NestedBudget::nest(inner.budget, outer.budget);
    EXPECT_TRUE(inner.allocate(12_MiB));
    inner.device->free(inner.blocks.back());
    inner.blocks.clear();
    EXPECT_TRUE(outer.allocate(14_MiB));
    EXPECT_EQ(outer.budget->trim_borrowers(), 0) << "it was taken back";
}

TEST(NestedBudgetTest, as_the_last_resort_the_inner_one_lets_values_go) {
    Holder outer(16_MiB);
    Holder inner(64_MiB);
    NestedBudget::nest(inner.budget, outer.budget);
    EXPECT_TRUE(inner.allocate(12_MiB));
    EXPECT_TRUE(outer.allocate(14_MiB));
    EXPECT_TRUE(inner.blocks.empty());
    inner.may_let_go = false;
    EXPECT_FALSE(outer.allocate(64_MiB));
}

TEST(NestedBudgetTest, a_lender_that_caps_no_more_bounds_nothing) {
    Holder outer(16_MiB);
    Holder inner(64_MiB);
    NestedBudget::nest(inner.budget, outer.budget);
    EXPECT_TRUE(inner.allocate(12_MiB));
    outer.is_capping = false;
    EXPECT_TRUE(inner.allocate(32_MiB));
    EXPECT_LT(outer.device->used_bytes(), 1_MiB) << "what was lent came back";
}

TEST(NestedBudgetTest, one_that_is_around_is_not_nested_the_other_way) {
    Holder outer(16_MiB);
    Holder inner(64_MiB);
    NestedBudget::nest(inner.budget, outer.budget);
    NestedBudget::nest(outer.budget, inner.budget);
    NestedBudget::nest(inner.budget, inner.budget);
    EXPECT_TRUE(outer.allocate(8_MiB));
    EXPECT_EQ(inner.device->used_bytes(), 0) << "it counts in no budget inside";
}

TEST(NestedBudgetTest, a_budget_two_levels_out_bounds_and_is_named) {
    Holder outermost(16_MiB);
    Holder middle(32_MiB);
    Holder inner(64_MiB);
    NestedBudget::nest(middle.budget, outermost.budget);
    NestedBudget::nest(inner.budget, middle.budget);
    inner.may_let_go = false;
    EXPECT_TRUE(inner.allocate(12_MiB));
    EXPECT_FALSE(inner.allocate(8_MiB));
    EXPECT_EQ(inner.budget->refusal(8_MiB)->limit_bytes, 16_MiB);
}

TEST(NestedBudgetTest, one_that_borrows_elsewhere_now_is_not_asked) {
    Holder first(16_MiB);
    Holder second(16_MiB);
    Holder inner(64_MiB);
    NestedBudget::nest(inner.budget, first.budget);
    first.is_capping = false;
    EXPECT_TRUE(inner.allocate(1_MiB)) << "its loan of the first one has ended";
    first.is_capping = true;
    NestedBudget::nest(inner.budget, second.budget);
    EXPECT_TRUE(inner.allocate(1_MiB));
    EXPECT_TRUE(first.allocate(15_MiB));
    first.may_let_go = false;
    EXPECT_FALSE(first.allocate(4_MiB)) << "what comes free inside is the second one's";
    EXPECT_EQ(inner.blocks.size(), 2U);
}

}  // namespace
}  // namespace spillway
