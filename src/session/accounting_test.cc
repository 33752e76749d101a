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
