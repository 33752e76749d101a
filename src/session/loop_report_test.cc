// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the loop tells of itself.

#include "base/units.h"
#include "session/loop_rig.h"
#include "tier/host_tier.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace spillway {
namespace {

std::int64_t stalled(Loop const& loop, StallCause cause) {
    return loop.report().stall_by_cause_ns[static_cast<std::size_t>(cause)];
}

/// Saves what does not fit beside each other, and needs it again. The tier takes its time.
void stall(Rig& rig) {
    rig.tier->set_delay_ms(2);
    std::vector<ValueId> values;
    for (int i = 0; i < 12; ++i) {
        values.push_back(rig.save(256_KiB).value());
    }
    ASSERT_TRUE(rig.loop->need(values.front()).ok());
    for (ValueId const value : values) {
        rig.done_with(value);
    }
    rig.loop->settle();
}

TEST(LoopReport, waits_for_a_disk_are_told_apart_from_making_room) {
    Rig rig(2_MiB);
    stall(rig);
    Report const report = rig.loop->report();
    EXPECT_GE(stalled(*rig.loop, StallCause::nvme), 2'000'000);
    EXPECT_EQ(stalled(*rig.loop, StallCause::nvme), report.stall_store_ns + report.stall_load_ns);
    EXPECT_EQ(stalled(*rig.loop, StallCause::copy_out), 0);
    EXPECT_EQ(stalled(*rig.loop, StallCause::copy_in), 0);
    EXPECT_GT(stalled(*rig.loop, StallCause::admission), 0);
}

TEST(LoopReport, waits_for_a_place_in_memory_are_copies) {
    Rig rig(2_MiB, {}, {}, 64_MiB, ChooserKind::online, Pool::host);
    stall(rig);
    Report const report = rig.loop->report();
    EXPECT_GT(report.stall_store_ns, 0);
    EXPECT_GT(report.stall_load_ns, 0);
    EXPECT_EQ(stalled(*rig.loop, StallCause::copy_out), report.stall_store_ns);
    EXPECT_EQ(stalled(*rig.loop, StallCause::copy_in), report.stall_load_ns);
    EXPECT_EQ(stalled(*rig.loop, StallCause::nvme), 0);
}

TEST(LoopReport, room_that_is_refused_at_once_was_no_wait_for_a_move) {
    Rig rig(1_MiB, {}, {}, 64_MiB, ChooserKind::keep_all);
    ASSERT_FALSE(rig.loop->make_room(2_MiB).ok());
    EXPECT_GT(stalled(*rig.loop, StallCause::admission), 0);
    EXPECT_EQ(stalled(*rig.loop, StallCause::nvme), 0);
}

TEST(LoopReport, host_memory_of_tiers_and_staging_is_in_the_report) {
    auto device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
    Blocks driver(*device);
    MoverOptions options{.staging = map_host_memory(64_KiB).value()};
    auto mover = std::make_unique<Mover>(
        device, HostTier::open(1_MiB + 1).value(), nullptr, std::move(options)
    );
    Loop const loop({}, device, std::move(mover), driver);
    EXPECT_EQ(loop.report().host_requested_bytes, 1_MiB + 1 + 64_KiB);
    EXPECT_EQ(loop.report().host_locked_bytes, 0);
    EXPECT_EQ(loop.report().staging_bytes, 64_KiB);
}

}  // namespace
}  // namespace spillway
