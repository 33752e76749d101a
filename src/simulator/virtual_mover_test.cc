// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "simulator/virtual_mover.h"

#include "base/units.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>
#include <vector>

namespace spillway {
namespace {

/// One value of 1000 bytes on the device, and a link that takes 1 ns a byte.
class VirtualMoverTest : public testing::Test {
  protected:
    VirtualMoverTest() {
        machine_.links = {
            {Pool::device, Pool::nvme, 1e9, 1e9, 0, ""},
            {Pool::nvme, Pool::device, 1e9, 1e9, 0, ""}};
        trace_.values.push_back({});
        memory_.allocate(1000);
        memory_.saved({0}, 1000);
        memory_.became_unshared({0});
    }
    static Command command(CommandKind kind, std::int64_t id, std::vector<CommandId> after = {}) {
        Command made;
        made.id = {id};
        made.kind = kind;
        made.pool = Pool::nvme;
        made.lane = Lane::nvme_write;
        made.value = {0};
        made.block = {0};
        made.size_bytes = 1000;
        made.after = std::move(after);
        return made;
    }
    /// What was queued for the executor since the last call: "finished 1 ", "failed 2 ".
    std::string queued(VirtualMover& mover) {
        std::string all;
        while (std::optional<Event> const event = mover.take_queued()) {
            if (auto const* const finished = std::get_if<Finished>(&*event)) {
                all += "finished " + std::to_string(finished->command.number) + " ";
            } else if (auto const* const failed = std::get_if<Failed>(&*event)) {
                all += "failed " + std::to_string(failed->command.number) + " ";
            }
        }
        return all;
    }
    VirtualMover mover_with(SimulatorOptions const& how) {
        return VirtualMover(machine_, how, {trace_, advice_, situation_, memory_, result_, [this] {
                                                ++settled_;
                                            }});
    }

    Machine machine_;
    Trace trace_;
    ExecutorOptions const options_{.device_bytes = 2000, .nvme_bytes = 5000};
    SimulatorOptions how_;
    SaveAdvice const advice_{options_, how_, nullptr};
    Situation situation_;
    VirtualMemory memory_{options_};
    SimulationResult result_;
    int settled_ = 0;
};

TEST_F(VirtualMoverTest, a_store_takes_its_time_and_a_drop_comes_after_it) {
    VirtualMover mover = mover_with(how_);
    mover.execute(command(CommandKind::reserve, 1));
    mover.execute(command(CommandKind::store, 2, {{1}}));
    mover.execute(command(CommandKind::drop, 3, {{2}}));
    EXPECT_EQ(queued(mover), "");
    EXPECT_FALSE(mover.is_quiet()) << "the drop waits";
    mover.pass_time(999);
    EXPECT_EQ(queued(mover), "");
    mover.pass_time(1000);
    EXPECT_EQ(queued(mover), "finished 2 finished 3 ");
    EXPECT_TRUE(mover.is_quiet());
    EXPECT_EQ(memory_.used_bytes(Pool::device), 0);
    EXPECT_EQ(result_.stored_bytes, 1000);
    EXPECT_TRUE(memory_.verdict().ok());
}

TEST_F(VirtualMoverTest, compute_is_slower_while_bytes_move) {
    machine_.device.interference = 0.5;
    VirtualMover mover = mover_with(how_);
    EXPECT_EQ(mover.compute(100), 0);
    mover.execute(command(CommandKind::reserve, 0));
    mover.execute(command(CommandKind::store, 1, {{0}}));  // 1000 ns
    EXPECT_EQ(mover.compute(600), 500);
    EXPECT_EQ(mover.now_ns(), 1200);
    EXPECT_EQ(mover.compute(100), 0);
}

TEST_F(VirtualMoverTest, a_wait_lets_time_pass_and_is_booked_by_its_cause) {
    VirtualMover mover = mover_with(how_);
    mover.execute(command(CommandKind::reserve, 1));
    mover.execute(command(CommandKind::store, 2, {{1}}));
    mover.execute(command(CommandKind::wait, 3, {{2}}));
    EXPECT_EQ(mover.now_ns(), 1000);
    EXPECT_EQ(result_.stall_room_ns, 1000);
    EXPECT_EQ(result_.stall_need_ns, 0);
    EXPECT_EQ(settled_, 1);
}

TEST_F(VirtualMoverTest, what_waits_for_an_injected_fault_fails_with_it) {
    how_.fail_store = 1;
    VirtualMover mover = mover_with(how_);
    mover.execute(command(CommandKind::reserve, 1));
    mover.execute(command(CommandKind::store, 2, {{1}}));
    mover.execute(command(CommandKind::drop, 3, {{2}}));
    mover.finish_all();
    EXPECT_EQ(queued(mover), "failed 2 failed 3 ");
    EXPECT_EQ(mover.faults(), 2);
    EXPECT_EQ(memory_.used_bytes(Pool::device), 1000) << "it was not dropped";
}

TEST_F(VirtualMoverTest, what_was_never_given_breaks_a_promise) {
    VirtualMover mover = mover_with(how_);
    mover.execute(command(CommandKind::store, 2, {{77}}));
    ASSERT_FALSE(memory_.verdict().ok());
    EXPECT_NE(memory_.verdict().error().message().find("never given"), std::string::npos);
}

}  // namespace
}  // namespace spillway
