// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The loop on real memory and real tiers, with a driver that holds plain blocks instead of tensors.

#include "session/loop.h"

#include "base/units.h"
#include "executor/event_log.h"
#include "session/loop_rig.h"
#include "test_paths.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

namespace spillway {
namespace {

TEST(Loop, values_beyond_the_limit_come_back_as_they_were) {
    Rig rig(4_MiB);
    std::vector<ValueId> const values = rig.save_all(40, 256_KiB);
    rig.loop->phase(Phase::backward);
    for (auto value = values.rbegin(); value != values.rend(); ++value) {
        ASSERT_TRUE(rig.loop->need(*value).ok());
        rig.expect_intact(*value);
        rig.done_with(*value);
    }
    rig.loop->settle();
    EXPECT_LE(rig.loop->report().device_peak_bytes, 4_MiB);
    EXPECT_EQ(rig.loop->ledger(), LedgerView{});
    EXPECT_EQ(rig.device->usage().used_bytes, 0);
}

TEST(Loop, a_value_may_be_needed_again_and_again) {
    Rig rig(2_MiB);
    std::vector<ValueId> const values = rig.save_all(20, 256_KiB);
    for (int pass = 0; pass < 3; ++pass) {
        rig.loop->phase(Phase::backward);
        for (ValueId const value : values) {  // not the order that was guessed
            ASSERT_TRUE(rig.loop->need(value).ok());
            rig.expect_intact(value);
            rig.driver->unshared.push_back(value);
            ASSERT_TRUE(rig.loop->make_room(1).ok());
        }
    }
    for (ValueId const value : values) {
        rig.done_with(value);
    }
    rig.loop->settle();
    EXPECT_EQ(rig.loop->ledger(), LedgerView{});
}

TEST(Loop, where_the_count_has_room_and_the_device_refuses_as_much_leaves_as_was_asked_for) {
    Rig rig(8_MiB);
    std::vector<ValueId> const values = rig.save_all(16, 256_KiB);
    ASSERT_EQ(rig.device->usage().used_bytes, 4_MiB);
    ASSERT_TRUE(rig.loop->make_room(2_MiB).ok());
    EXPECT_EQ(rig.device->usage().used_bytes, 2_MiB);
    ASSERT_TRUE(rig.loop->make_room(4_MiB).ok()) << "less came free, which may be enough";
    EXPECT_EQ(rig.device->usage().used_bytes, 0);
    Result<void> const nothing_left = rig.loop->make_room(1_MiB);
    ASSERT_FALSE(nothing_left.ok());
    EXPECT_EQ(nothing_left.error().code, Errc::out_of_memory);
    ASSERT_NE(nothing_left.error().refusal, nullptr);
    EXPECT_TRUE(nothing_left.error().refusal->is_in_pieces);
    EXPECT_EQ(nothing_left.error().refusal->asked_bytes, 1_MiB) << "what the program asked for";
    rig.loop->phase(Phase::backward);
    for (ValueId const value : values) {
        ASSERT_TRUE(rig.loop->need(value).ok());
        rig.expect_intact(value);
        rig.done_with(value);
    }
}

TEST(Loop, what_the_program_wrote_leaves_and_comes_back_as_written) {
    Rig rig(2_MiB);
    std::vector<ValueId> const values = rig.save_all(20, 256_KiB);
    rig.loop->phase(Phase::backward);
    for (bool const writes : {true, false, true, false}) {
        for (ValueId const value : values) {
            ASSERT_TRUE(rig.loop->need(value).ok());
            rig.expect_intact(value);
            if (writes) {
                rig.write(value);
            }
            rig.driver->unshared.push_back(value);
            ASSERT_TRUE(rig.loop->make_room(1).ok());
        }
    }
    for (ValueId const value : values) {
        rig.done_with(value);
    }
    rig.loop->settle();
    EXPECT_EQ(rig.loop->ledger(), LedgerView{});
}

TEST(Loop, keep_all_refuses_and_says_what_was_asked) {
    Rig rig(1_MiB, {}, {}, 64_MiB, ChooserKind::keep_all);
    for (int i = 0; i < 4; ++i) {
        ASSERT_TRUE(rig.save(256_KiB).ok());
    }
    Result<ValueId> const fifth = rig.save(256_KiB);
    ASSERT_FALSE(fifth.ok());
    EXPECT_EQ(fifth.error().code, Errc::out_of_memory);
    EXPECT_NE(fifth.error().what.find("asked for 256.0 KiB"), std::string::npos);
    EXPECT_NE(fifth.error().what.find("1.2 MiB are needed"), std::string::npos)
        << fifth.error().what;
    for (int i = 0; i < 4; ++i) {
        rig.done_with(ValueId{i});
    }
}

TEST(Loop, a_store_that_fails_leaves_its_value_on_the_device) {
    Rig rig(2_MiB, {{.kind = Fault::Kind::fail, .way = Direction::store, .first = 0, .count = 1}});
    std::vector<ValueId> values;
    Error why;
    for (int i = 0; i < 40 && why.what.empty(); ++i) {
        Result<ValueId> const value = rig.save(256_KiB);
        if (value.ok()) {
            values.push_back(*value);
        } else {
            why = value.error();
        }
    }
    EXPECT_EQ(why.code, Errc::out_of_memory);  // the tier is given up: nothing else can leave
    EXPECT_GE(values.size(), 8U);
    rig.loop->phase(Phase::backward);
    std::reverse(values.begin(), values.end());
    for (ValueId const value : values) {
        ASSERT_TRUE(rig.loop->need(value).ok());
        rig.expect_intact(value);
        rig.done_with(value);
    }
    rig.loop->settle();
    EXPECT_EQ(rig.loop->ledger(), LedgerView{});
}

TEST(Loop, a_full_tier_keeps_what_it_has_and_the_rest_stays) {
    Rig rig(2_MiB, {}, {}, 1_MiB);
    std::vector<ValueId> values;
    for (int i = 0; i < 12; ++i) {
        Result<ValueId> const value = rig.save(256_KiB);
        ASSERT_TRUE(value.ok()) << i << ' ' << value.error().message();
        values.push_back(*value);
    }
    EXPECT_FALSE(rig.save(256_KiB).ok());
    std::reverse(values.begin(), values.end());
    for (ValueId const value : values) {
        ASSERT_TRUE(rig.loop->need(value).ok());
        rig.expect_intact(value);
        rig.done_with(value);
    }
}

TEST(Loop, a_flipped_bit_stops_the_step_and_names_the_value) {
    Rig rig(1_MiB, {{.kind = Fault::Kind::flip, .way = Direction::load, .first = 0, .count = 1}});
    std::vector<ValueId> const values = rig.save_all(10, 256_KiB);
    auto const outcome = rig.loop->need(values.front());
    ASSERT_FALSE(outcome.ok());
    EXPECT_EQ(outcome.error().code, Errc::corrupt);
    EXPECT_NE(outcome.error().what.find("test value 0"), std::string::npos);
    for (ValueId const value : values) {
        rig.done_with(value);
    }
    rig.loop->settle();
    EXPECT_EQ(rig.loop->ledger(), LedgerView{});
    EXPECT_EQ(rig.device->usage().used_bytes, 0);
}

TEST(Loop, a_read_ahead_that_fails_while_it_is_waited_for_is_tried_again) {
    Rig rig(2_MiB, {{.kind = Fault::Kind::fail, .way = Direction::load, .first = 0, .count = 1}});
    rig.loop->begin_step(0);
    rig.loop->phase(Phase::forward);
    std::vector<ValueId> values = rig.save_all(12, 256_KiB);
    std::reverse(values.begin(), values.end());
    rig.loop->phase(Phase::backward);
    rig.loop->backward_order(values);
    rig.tier->set_delay_ms(50);
    for (ValueId const value : values) {  // the first that is away is asked for at once
        auto const there = rig.loop->need(value);
        ASSERT_TRUE(there.ok()) << value.number << ": " << there.error().message();
        rig.expect_intact(value);
        rig.done_with(value);
    }
    rig.loop->settle();
    EXPECT_EQ(rig.loop->ledger(), LedgerView{});
}

TEST(Loop, values_dropped_while_their_copies_are_under_way_leak_nothing) {
    Rig rig(
        2_MiB, {{.kind = Fault::Kind::hold, .way = Direction::store, .first = 0, .count = 1000}}
    );
    std::vector<ValueId> const values = rig.save_all(8, 256_KiB);
    for (ValueId const value : values) {
        rig.done_with(value);  // the stores hold their bytes
    }
    rig.loop->settle();
    EXPECT_GT(rig.device->usage().used_bytes, 0);
    rig.tier->let_go();
    rig.loop->settle();
    EXPECT_EQ(rig.loop->ledger(), LedgerView{});
    EXPECT_EQ(rig.device->usage().used_bytes, 0);
}

TEST(Loop, the_event_log_gives_a_fresh_executor_the_same_commands) {
    std::string const path = std::filesystem::path(build_folder()) / "loop_test.events";
    {
        Rig rig(3_MiB, {}, path);
        std::mt19937 random(5);
        for (int step = 0; step < 4; ++step) {
            rig.loop->begin_step(step);
            rig.loop->phase(Phase::forward);
            std::vector<ValueId> values;
            for (int i = 0; i < 30; ++i) {
                values.push_back(rig.save(4096 * (1 + static_cast<int>(random() % 64))).value());
            }
            rig.loop->phase(Phase::backward);
            std::reverse(values.begin(), values.end());
            rig.loop->backward_order(values);
            for (ValueId const value : values) {
                ASSERT_TRUE(rig.loop->need(value).ok());
                rig.expect_intact(value);
                rig.done_with(value);
            }
        }
    }
    std::ifstream stream(path);
    Result<ReplayOutcome> const outcome = replay(stream);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    EXPECT_TRUE(outcome->identical) << outcome->difference;
    EXPECT_GT(outcome->commands, 150);
}

TEST(Loop, the_event_log_of_a_roomy_run_is_read_back_and_knows_no_negative_bytes) {
    std::string const path = std::filesystem::path(build_folder()) / "loop_test.roomy.events";
    {
        Rig rig(64_MiB, {}, path);
        for (int step = 0; step < 3; ++step) {
            rig.loop->begin_step(step);
            rig.loop->phase(Phase::forward);
            std::vector<ValueId> const values = rig.save_all(20, 256_KiB);
            rig.loop->phase(Phase::backward);
            for (ValueId const value : values) {
                rig.done_with(value);  // never reported to the executor, and free by now
            }
            rig.loop->phase(Phase::update);
        }
    }
    std::ifstream stream(path);
    Result<ReplayOutcome> const outcome = replay(stream);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    EXPECT_TRUE(outcome->identical) << outcome->difference;
}

TEST(Loop, a_tier_that_failed_once_is_used_again_in_the_next_step) {
    Rig rig(1_MiB, {{.kind = Fault::Kind::fail, .way = Direction::store, .first = 0, .count = 1}});
    auto const fill = [&] {
        std::vector<ValueId> values;
        for (int i = 0; i < 10; ++i) {
            Result<ValueId> const value = rig.save(256_KiB);
            if (!value.ok()) {
                break;
            }
            values.push_back(*value);
        }
        for (ValueId const value : values) {
            rig.done_with(value);
        }
        rig.loop->settle();
        return std::ssize(values);
    };
    rig.loop->begin_step(0);
    EXPECT_LT(fill(), 10) << "the first store failed, so the tier takes no more in this step";
    rig.loop->begin_step(1);
    EXPECT_EQ(fill(), 10);
}

TEST(Loop, threads_that_need_the_same_values_all_find_them) {
    Rig rig(2_MiB);
    std::vector<ValueId> const values = rig.save_all(20, 256_KiB);
    // Only the loop is shared: the first half is absent, each thread asks for its own share twice.
    std::vector<ValueId> const shared(values.begin(), values.begin() + 4);
    for (ValueId const value : values) {
        if (value.number >= 4) {
            rig.done_with(value);
        }
    }
    rig.loop->settle();
    std::atomic<int> found = 0;
    auto ask = [&] {
        for (ValueId const value : shared) {
            found += rig.loop->need(value).ok() ? 1 : 0;
        }
    };
    ask();
    std::thread first(ask);
    std::thread second(ask);
    first.join();
    second.join();
    EXPECT_EQ(found, 12);
    for (ValueId const value : shared) {
        rig.expect_intact(value);
        rig.done_with(value);
    }
}

}  // namespace
}  // namespace spillway
