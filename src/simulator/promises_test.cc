// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// That broken promises are noticed; that the executor breaks none is for tests/fuzz.
#include "simulator/promises.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

/// A device of 2000 bytes of which 1500 are a value's, and an NVMe pool.
class PromisesTest : public testing::Test {
  protected:
    PromisesTest() {
        memory_.allocate(1500);
        memory_.saved({0}, 1500);
    }
    /// What the answer to a short of 1000 bytes broke; empty: nothing.
    std::string broken_by_answer(bool ok) {
        promises_.short_begins();
        promises_.short_answered(1000, ok);
        return verdict();
    }
    std::string verdict() const {
        return memory_.verdict().ok() ? "" : memory_.verdict().error().message();
    }

    Machine machine_;
    Trace trace_;
    ExecutorOptions options_{.device_bytes = 2000, .nvme_bytes = 5000};
    SimulatorOptions const how_;
    SaveAdvice const advice_{options_, how_, nullptr};
    Situation situation_;
    VirtualMemory memory_{options_};
    SimulationResult result_;
    VirtualMover mover_{machine_, how_, {trace_, advice_, situation_, memory_, result_, [] {}}};
    Promises promises_{options_, memory_, mover_};
};

TEST_F(PromisesTest, an_answer_without_room_is_noticed) {
    EXPECT_NE(broken_by_answer(true).find("answered without room"), std::string::npos);
}

TEST_F(PromisesTest, a_refusal_is_right_while_nothing_may_leave) {
    EXPECT_EQ(broken_by_answer(false), "") << "the program still uses the value";
    memory_.became_unshared({0});
    EXPECT_NE(broken_by_answer(false).find("could be stored"), std::string::npos);
}

TEST_F(PromisesTest, who_keeps_all_may_refuse_whatever_may_leave) {
    options_.chooser = ChooserKind::keep_all;
    memory_.became_unshared({0});
    EXPECT_EQ(broken_by_answer(false), "");
}

TEST_F(PromisesTest, a_ledger_that_counts_otherwise_is_noticed_when_all_is_quiet) {
    LedgerView ledger;
    ledger.held_bytes = 1000;
    mover_.queue(Dropped{{0}});
    promises_.check_held(ledger);
    EXPECT_EQ(verdict(), "") << "the executor has not heard of the drop";
    ASSERT_TRUE(mover_.take_queued().has_value());
    promises_.check_held(ledger);
    EXPECT_NE(verdict().find("1000 held bytes, there are 1500"), std::string::npos);
}

TEST_F(PromisesTest, a_ledger_that_keeps_something_to_the_end_is_noticed) {
    promises_.check_empty({});
    EXPECT_EQ(verdict(), "");
    LedgerView ledger;
    ledger.reserved_bytes[1] = 1;
    promises_.check_empty(ledger);
    EXPECT_NE(verdict().find("not empty"), std::string::npos);
}

}  // namespace
}  // namespace spillway
