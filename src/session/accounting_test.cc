// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/accounting.h"

#include "session/loop_parts.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TEST(Accounting, a_peak_belongs_to_the_phase_that_it_was_in) {
    Parts parts;
    parts.accounting.begin_phase(1, Phase::forward);
    void* const block = parts.device->try_allocate(4_MiB, {0});
    EXPECT_GE(parts.accounting.take_peak(), 4_MiB);
    parts.device->free(block);
    (void)parts.accounting.take_peak();  // the peak until here is the forward's
    parts.accounting.begin_phase(1, Phase::update);
    EXPECT_LT(parts.accounting.take_peak(), 4_MiB);
    Report const report = parts.accounting.report();
    EXPECT_GE(report.device_peak_by_phase[static_cast<std::size_t>(Phase::forward)], 4_MiB);
    EXPECT_LT(report.device_peak_by_phase[static_cast<std::size_t>(Phase::update)], 4_MiB);
}

TEST(Accounting, a_wait_while_room_is_made_counts_once) {
    Parts parts;
    Moving const store{.pool = Pool::nvme, .value = ValueId{3}};
    std::int64_t const start_ns = steady_now_ns() - 10'000'000'000;
    parts.accounting.begin_admission(start_ns);
    parts.accounting.stalled(store, 4'000'000'000);
    std::int64_t const end_ns = steady_now_ns();
    parts.accounting.end_admission(end_ns);
    Report const report = parts.accounting.report();
    auto const by = [&](StallCause cause) {
        return report.stall_by_cause_ns[static_cast<std::size_t>(cause)];
    };
    EXPECT_EQ(by(StallCause::nvme), 4'000'000'000);
    EXPECT_EQ(report.stall_store_ns, 4'000'000'000);
    EXPECT_LE(by(StallCause::admission), end_ns - start_ns - 4'000'000'000);
    EXPECT_GE(by(StallCause::admission), 6'000'000'000);
    EXPECT_EQ(parts.accounting.stalled_ns(), by(StallCause::nvme) + by(StallCause::admission));
    EXPECT_EQ(parts.accounting.histories().at(ValueId{3}).waited_ns, 4'000'000'000);
}

TEST(Accounting, waits_for_returns_are_told_by_value_where_that_is_asked_for) {
    Parts parts;
    Moving const store{.pool = Pool::nvme, .value = ValueId{3}};
    Moving const load{.kind = CommandKind::load, .pool = Pool::nvme, .value = ValueId{4}};
    parts.accounting.stalled(load, 5);
    EXPECT_TRUE(parts.accounting.take_return_waits().empty());
    parts.accounting.keep_return_waits(true);
    parts.accounting.stalled(store, 5);
    parts.accounting.stalled(load, 6);
    EXPECT_EQ(
        parts.accounting.take_return_waits(), (std::map<ValueId, std::int64_t>{{ValueId{4}, 6}})
    );
    EXPECT_TRUE(parts.accounting.take_return_waits().empty());
}

TEST(Accounting, a_new_plan_keeps_the_last_ones_time_until_it_has_its_own) {
    Parts parts;
    parts.accounting.begin_step();
    parts.accounting.plan_begins("capuchin", 1, 2);
    EXPECT_EQ(parts.accounting.report().plan.step_ns, 0);
    EXPECT_GT(parts.accounting.begin_step(), 0);
    std::int64_t const first_ns = parts.accounting.report().plan.step_ns;
    EXPECT_GT(first_ns, 0);
    parts.accounting.plan_begins("capuchin", 3, 2);
    EXPECT_EQ(parts.accounting.report().plan.step_ns, first_ns);
    EXPECT_EQ(parts.accounting.report().plan.steps, 1);
    parts.accounting.plan_was_mended(1);
    EXPECT_EQ(parts.accounting.report().plan.feedback_rounds, 1);
}

TEST(Accounting, a_history_says_where_a_value_was) {
    Parts parts;
    ValueId const value{5};
    parts.accounting.store_begins(value, Pool::nvme);
    parts.accounting.left(value, 1_MiB, false);
    parts.accounting.left(value, 1_MiB, true);
    parts.accounting.returned(value);
    History const history = parts.accounting.histories().at(value);
    EXPECT_EQ(history.pool, Pool::nvme);
    EXPECT_TRUE(history.left && history.came_free);
    EXPECT_EQ(history.returned, 1);
    Report const report = parts.accounting.report();
    EXPECT_EQ(report.freed_bytes, 1_MiB);
    EXPECT_EQ(report.kept_by_others_bytes, 1_MiB);
    parts.accounting.begin_histories();
    EXPECT_TRUE(parts.accounting.histories().empty());
}

}  // namespace
}  // namespace spillway
