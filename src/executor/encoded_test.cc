// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Values with a code, and the advice of a driver's rule: what the executor answers, command by
// command.

#include "executor/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kRaw = 1000;
constexpr std::int64_t kEncoded = 200;

/// "encode 1 after 0", one a command; waits, notes and raises are left out.
std::string text_of(std::vector<Command> const& commands) {
    std::string text;
    for (Command const& command : commands) {
        if (command.kind == CommandKind::wait || command.kind == CommandKind::note ||
            command.kind == CommandKind::raise) {
            continue;
        }
        std::string_view const what =
            command.kind == CommandKind::run ? name_of(command.work) : name_of(command.kind);
        text += (text.empty() ? "" : ", ") + std::string(what) + " " +
                std::to_string(command.size_bytes);
        for (CommandId const fence : command.after) {
            text += " after " + std::to_string(fence.number);
        }
    }
    return text;
}

std::string words_of(Command const& command) {
    if (auto const* const notice = std::get_if<Notice>(&command.message)) {
        return words_of(*notice);
    }
    auto const* const refusal = std::get_if<Refusal>(&command.message);
    return refusal == nullptr ? "" : words_of(*refusal, Face::cpp);
}

bool has_command(
    std::vector<Command> const& commands, CommandKind kind, std::string const& text = ""
) {
    return std::any_of(commands.begin(), commands.end(), [&](Command const& command) {
        return command.kind == kind && words_of(command).find(text) != std::string::npos;
    });
}

Command const& last(std::vector<Command> const& commands, CommandKind kind) {
    static Command const none;
    auto const found = std::find_if(commands.rbegin(), commands.rend(), [&](Command const& c) {
        return c.kind == kind;
    });
    EXPECT_NE(found, commands.rend()) << "no " << name_of(kind);
    return found == commands.rend() ? none : *found;
}

/// Values of 1000 bytes, 200 encoded, on a device of 10,000 with NVMe of 5000.
class Encoded : public testing::Test {
  protected:
    std::vector<Command> save(std::int64_t id, Advice advice, std::int64_t encoded = kEncoded) {
        used_ += kRaw;
        return executor_.on(Saved{
            ValueId{id}, kRaw, {"a", 0, static_cast<int>(id)}, usage(), encoded, advice});
    }
    std::vector<Command> unshared(std::int64_t id) {
        return executor_.on(Point{{ValueId{id}}, usage()});
    }
    /// An allocation that needs `missing` bytes more than there are.
    std::vector<Command> short_of(std::int64_t missing) {
        return executor_.on(Short{10'000 - used_ + missing, usage()});
    }
    std::vector<Command> finish(std::vector<std::int64_t> const& commands) {
        std::vector<Command> all;
        for (std::int64_t const command : commands) {
            for (Command const& one : executor_.on(Finished{CommandId{command}})) {
                all.push_back(one);
            }
        }
        return all;
    }
    std::vector<Command> fail(std::int64_t command, std::string const& why) {
        return executor_.on(Failed{CommandId{command}, false, why});
    }
    /// Value 0 is stored by commands 0 to 2 and dropped by command 4.
    void send_away() {
        save(0, Advice::at_once);
        unshared(0);
        finish({1, 2});
        short_of(1);
        finish({4});
        used_ -= kRaw;
    }
    [[nodiscard]] std::int64_t on_nvme() const {
        return executor_.ledger().reserved_bytes[static_cast<std::size_t>(Pool::nvme)];
    }
    [[nodiscard]] Usage usage() const { return {used_, used_}; }

    Executor executor_{{.device_bytes = 10'000, .nvme_bytes = 5000}};
    std::int64_t used_ = 0;
};

TEST_F(Encoded, leaves_through_its_encode) {
    save(0, Advice::at_once);
    std::vector<Command> const reply = unshared(0);
    EXPECT_EQ(text_of(reply), "reserve 200, encode 1000 after 0, store 200 after 1");
    EXPECT_EQ(last(reply, CommandKind::run).lane, Lane::side);
    EXPECT_EQ(last(reply, CommandKind::run).value, ValueId{0});
    EXPECT_EQ(last(reply, CommandKind::run).block, last(reply, CommandKind::store).block);
    EXPECT_EQ(on_nvme(), kEncoded);
}

TEST_F(Encoded, without_a_code_it_leaves_as_it_is) {
    save(0, Advice::at_once, 0);
    EXPECT_EQ(text_of(unshared(0)), "reserve 1000, store 1000 after 0");
    EXPECT_EQ(on_nvme(), kRaw);
}

TEST_F(Encoded, is_dropped_after_its_store_not_after_its_encode) {
    save(0, Advice::at_once);
    unshared(0);
    std::vector<Command> const reply = short_of(1);
    EXPECT_EQ(last(reply, CommandKind::wait).after, std::vector{CommandId{2}});
    EXPECT_EQ(last(reply, CommandKind::drop).after, std::vector{CommandId{2}});
}

TEST_F(Encoded, is_needed_after_its_decode) {
    send_away();
    std::vector<Command> const reply = executor_.on(Need{ValueId{0}, usage()});
    EXPECT_EQ(
        text_of(reply), "reserve 1000, load 200 after 5, decode 1000 after 6, bind 0 after 7"
    );
    EXPECT_EQ(last(reply, CommandKind::wait).after, std::vector{CommandId{7}});
    EXPECT_EQ(last(reply, CommandKind::run).lane, Lane::side);
}

TEST_F(Encoded, its_room_outlives_its_decode) {
    send_away();
    (void)executor_.on(Need{ValueId{0}, usage()});
    EXPECT_EQ(text_of(executor_.on(Dropped{ValueId{0}})), "");
    EXPECT_EQ(text_of(finish({6})), "");
    EXPECT_EQ(text_of(finish({7})), "release 200");
    EXPECT_EQ(on_nvme(), 0);
    EXPECT_EQ(executor_.ledger().live_values, 0);
    EXPECT_TRUE(executor_.state().has_value());
}

TEST_F(Encoded, dropped_while_it_is_encoded_it_ends_with_its_store) {
    save(0, Advice::at_once);
    unshared(0);
    EXPECT_EQ(text_of(executor_.on(Dropped{ValueId{0}})), "");
    EXPECT_EQ(text_of(finish({1})), "");
    EXPECT_EQ(text_of(finish({2})), "release 200");
    EXPECT_EQ(on_nvme(), 0);
}

TEST_F(Encoded, a_write_waits_for_the_store_and_leaves_the_copy_behind) {
    save(0, Advice::at_once);
    unshared(0);
    std::vector<Command> const reply = executor_.on(AboutToWrite{ValueId{0}});
    EXPECT_EQ(last(reply, CommandKind::wait).after, std::vector{CommandId{2}});
    EXPECT_EQ(text_of(finish({1, 2})), "release 200");
    EXPECT_EQ(text_of(short_of(1)).substr(0, 12), "reserve 200,");  // encoded anew
}

TEST_F(Encoded, an_encode_that_fails_after_a_write_is_the_copy_s_own_matter) {
    save(0, Advice::at_once);
    unshared(0);
    (void)executor_.on(AboutToWrite{ValueId{0}});
    fail(1, "a third value");
    EXPECT_FALSE(has_command(fail(2, "a third value"), CommandKind::note))
        << "the tier is not at fault";
    EXPECT_EQ(text_of(short_of(1)).substr(0, 12), "reserve 200,") << "what was written may fit";
}

TEST_F(Encoded, after_an_encode_that_failed_it_leaves_as_it_is) {
    save(0, Advice::at_once);
    unshared(0);
    EXPECT_TRUE(has_command(fail(1, "element 3 is not a number"), CommandKind::note, "element 3"));
    std::vector<Command> const reply = fail(2, "element 3 is not a number");
    EXPECT_EQ(text_of(reply), "release 200");
    EXPECT_FALSE(has_command(reply, CommandKind::note)) << "the tier is not at fault";
    EXPECT_EQ(on_nvme(), 0);
    std::vector<Command> const raw = short_of(1);
    EXPECT_EQ(text_of(raw).substr(0, 32), "reserve 1000, store 1000 after 5");
    EXPECT_EQ(on_nvme(), kRaw);
}

TEST_F(Encoded, an_encode_given_up_without_a_fault_says_nothing) {
    save(0, Advice::at_once);
    unshared(0);
    EXPECT_TRUE(fail(1, "").empty());
    EXPECT_EQ(text_of(fail(2, "")), "release 200");
}

TEST_F(Encoded, a_place_without_room_is_no_fault_of_the_code) {
    save(0, Advice::at_once);
    save(1, Advice::at_once);
    unshared(0);
    fail(0, "the disk is full");
    fail(1, "the disk is full");
    EXPECT_TRUE(
        has_command(fail(2, "the disk is full"), CommandKind::note, "nvme tier takes no more")
    );
    EXPECT_EQ(text_of(unshared(1)), "") << "the place is closed until the next step";
    (void)executor_.on(Begin{1});
    EXPECT_EQ(text_of(short_of(1)).substr(0, 12), "reserve 200,") << "encoded all the same";
}

TEST_F(Encoded, a_store_that_failed_after_its_encode_closes_the_place) {
    save(0, Advice::at_once);
    save(1, Advice::at_once);
    unshared(0);
    finish({1});
    EXPECT_TRUE(has_command(fail(2, "bad disk"), CommandKind::note, "takes no more (bad disk)"));
    EXPECT_EQ(text_of(unshared(1)), "");
}

TEST_F(Encoded, a_read_ahead_given_up_waits_for_its_decode) {
    for (std::int64_t id = 0; id < 2; ++id) {
        save(id, Advice::at_once);
        unshared(id);
    }
    finish({1, 2, 4, 5});
    (void)short_of(1001);  // both are dropped
    used_ = 0;
    for (std::int64_t step = 1; step <= 2; ++step) {
        (void)executor_.on(Begin{step});  // how high the floor was is forgotten
    }
    std::vector<Command> const ahead = executor_.on(Need{ValueId{1}, usage()});
    CommandId const decode = last(ahead, CommandKind::run).id;
    EXPECT_EQ(last(ahead, CommandKind::run).value, ValueId{0}) << "read ahead";
    used_ = 10'000;
    std::vector<Command> const reply = short_of(1);
    EXPECT_EQ(last(reply, CommandKind::wait).after, std::vector{decode});
    EXPECT_EQ(text_of(reply), "release 1000");
}

TEST_F(Encoded, a_decode_that_failed_is_a_load_that_failed) {
    send_away();
    (void)executor_.on(Need{ValueId{0}, usage()});
    EXPECT_EQ(text_of(finish({6})), "");
    std::vector<Command> const reply = fail(7, "the checksum differs");
    EXPECT_TRUE(has_command(reply, CommandKind::note, "a load failed (the checksum differs)"));
    EXPECT_EQ(text_of(reply), "release 1000");
    EXPECT_EQ(
        text_of(executor_.on(Need{ValueId{0}, usage()})).substr(0, 23), "reserve 1000, load 200 "
    ) << "it is loaded again";
}

TEST_F(Encoded, what_is_too_long_for_a_place_is_judged_encoded) {
    Executor executor({.device_bytes = 10'000, .nvme_bytes = 5000, .nvme_value_bytes = kEncoded});
    (void
    )executor.on(Saved{ValueId{0}, kRaw, {"a", 0, 0}, {1000, 1000}, kEncoded + 1, Advice::at_once});
    EXPECT_EQ(text_of(executor.on(Point{{ValueId{0}}, {1000, 1000}})), "");
    (void)executor.on(Saved{ValueId{1}, kRaw, {"a", 0, 1}, {2000, 2000}, kEncoded, Advice::at_once}
    );
    EXPECT_EQ(
        text_of(executor.on(Point{{ValueId{1}}, {2000, 2000}})).substr(0, 12), "reserve 200,"
    );
}

TEST_F(Encoded, a_refusal_judges_the_length_encoded) {
    auto const refusal = [](std::int64_t encoded_bytes) {
        Executor executor({.device_bytes = 1000, .nvme_bytes = 100, .nvme_value_bytes = 300});
        Usage const full{1000, 1000};
        (void
        )executor.on(Saved{ValueId{0}, kRaw, {"a", 0, 0}, full, encoded_bytes, Advice::when_asked});
        (void)executor.on(Point{{ValueId{0}}, full});
        return last(executor.on(Short{1, full}), CommandKind::raise).message;
    };
    EXPECT_EQ(std::get<Refusal>(refusal(200)).nvme.state, PoolState::full);
    EXPECT_EQ(std::get<Refusal>(refusal(400)).nvme.state, PoolState::too_short);
    EXPECT_EQ(std::get<Refusal>(refusal(400)).host.state, PoolState::absent);
}

TEST_F(Encoded, more_of_them_fit_where_they_wait) {
    for (std::int64_t id = 0; id < 9; ++id) {
        save(id, Advice::at_once);
        EXPECT_NE(text_of(unshared(id)), "") << id;
    }
    EXPECT_EQ(on_nvme(), 9 * kEncoded);
}

using Advised = Encoded;

TEST_F(Advised, never_stays_though_room_is_asked_for) {
    save(0, Advice::never);
    unshared(0);
    EXPECT_TRUE(has_command(short_of(1), CommandKind::raise));
}

TEST_F(Advised, the_last_resort_leaves_after_all_others_and_only_for_room) {
    for (std::int64_t id = 0; id < 9; ++id) {
        save(id, id == 0 ? Advice::last_resort : Advice::when_asked);
        std::vector<Command> const reply = unshared(id);
        EXPECT_FALSE(has_command(reply, CommandKind::store) && reply.front().value == ValueId{0});
    }
    std::vector<Command> const others = short_of(8 * kRaw);
    EXPECT_FALSE(std::any_of(others.begin(), others.end(), [](Command const& command) {
        return command.value == ValueId{0};
    }));
    EXPECT_FALSE(has_command(others, CommandKind::raise));
    EXPECT_EQ(last(short_of(9 * kRaw), CommandKind::store).value, ValueId{0});
}

TEST_F(Advised, at_once_leaves_when_it_is_unshared) {
    save(0, Advice::when_asked);
    save(1, Advice::at_once);
    EXPECT_EQ(text_of(unshared(0)), "");
    EXPECT_NE(text_of(unshared(1)), "");
}

TEST_F(Advised, a_plan_overrides_what_it_knows) {
    Executor executor({.chooser = ChooserKind::planned, .device_bytes = 10'000, .nvme_bytes = 5000}
    );
    Plan plan;
    plan.fates[{"kept", 0, 0}] = {FateKind::keep, Pool::nvme};
    (void)executor.on(PlanGiven{plan});
    Usage const now{2000, 2000};
    (void)executor.on(Saved{ValueId{0}, kRaw, {"kept", 0, 0}, now, kEncoded, Advice::at_once});
    (void)executor.on(Saved{ValueId{1}, kRaw, {"unknown", 0, 0}, now, kEncoded, Advice::at_once});
    std::vector<Command> const reply = executor.on(Point{{ValueId{0}, ValueId{1}}, now});
    EXPECT_EQ(text_of(reply).substr(0, 12), "reserve 200,");
    EXPECT_EQ(last(reply, CommandKind::store).value, ValueId{1});
    EXPECT_EQ(reply.front().value, ValueId{1});
}

TEST_F(Advised, keep_all_keeps) {
    Executor executor({ChooserKind::keep_all, 10'000, 0, 5000});
    (void)executor.on(Saved{ValueId{0}, kRaw, {"a", 0, 0}, {1000, 1000}, kEncoded, Advice::at_once}
    );
    EXPECT_EQ(text_of(executor.on(Point{{ValueId{0}}, {1000, 1000}})), "");
}

TEST_F(Advised, nothing_is_told_later_while_a_value_waits_to_leave_at_once) {
    EXPECT_TRUE(executor_.may_report_later(kRaw));
    EXPECT_TRUE(executor_.may_report_later(kRaw, Advice::last_resort));
    EXPECT_FALSE(executor_.may_report_later(kRaw, Advice::at_once));
    save(0, Advice::at_once);
    EXPECT_FALSE(executor_.may_report_later(2 * kRaw)) << "a point must tell that it is unshared";
    unshared(0);
    EXPECT_FALSE(executor_.may_report_later(2 * kRaw)) << "a store is under way";
    finish({1, 2});
    (void)executor_.on(Dropped{ValueId{0}});
    EXPECT_TRUE(executor_.may_report_later(kRaw));
}

}  // namespace
}  // namespace spillway
