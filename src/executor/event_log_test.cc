// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "executor/event_log.h"

#include "executor/executor.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

namespace spillway {
namespace {

Usage const kUsage{100, 120};

std::vector<Event> one_of_each() {
    Plan plan;
    plan.fates[{"aten::mul", 0, 1}] = {FateKind::move, Pool::host};
    return {
        Begin{1},
        End{1},
        PhaseBegan{Phase::backward, kUsage},
        Point{{ValueId{1}, ValueId{2}}, kUsage},
        Saved{ValueId{3}, 4096, {"aten::mul", 1, 2}, kUsage, 1100, Advice::at_once},
        Made{ValueId{3}, {{ValueId{1}, ValueId{2}}, 2, 70, 4096}, false},
        Need{ValueId{3}, kUsage},
        AboutToWrite{ValueId{3}},
        BackwardOrder{{ValueId{3}, ValueId{1}}},
        Short{64, kUsage},
        PlanGiven{plan},
        Finished{CommandId{7}},
        Failed{CommandId{8}, true, "no \"space\"\nleft"},
        Dropped{ValueId{3}}};
}

/// What a small run reported to its executor, and the replies.
EventLog recorded() {
    EventLog log;
    log.options = {ChooserKind::online, 1000, 0, 1000, 900};
    Executor executor(log.options);
    std::vector<Event> const events{
        Begin{0},
        PhaseBegan{Phase::forward, {0, 0}},
        Saved{ValueId{0}, 500, {"a", 0, 0}, {500, 500}},
        Saved{ValueId{1}, 400, {"b", 0, 0}, {900, 900}},
        Point{{ValueId{0}}, {900, 900}},
        Short{300, {900, 900}}};
    for (Event const& event : events) {
        log.entries.emplace_back(event);
        for (Command const& command : executor.on(event)) {
            log.entries.emplace_back(command);
        }
    }
    return log;
}

TEST(EventText, every_event_reads_as_written) {
    for (Event const& event : one_of_each()) {
        std::string const line = to_text(event);
        EXPECT_EQ(line.find('\n'), std::string::npos);
        Result<Event> const parsed = parse_event(line);
        ASSERT_TRUE(parsed.ok()) << line << ": " << parsed.error().message();
        EXPECT_EQ(*parsed, event) << line;
    }
    EXPECT_EQ(one_of_each().size(), std::variant_size_v<Event>);
}

TEST(EventText, every_command_reads_as_written) {
    for (int kind = 0; kind <= static_cast<int>(CommandKind::note); ++kind) {
        Command command;
        command.id = CommandId{kind};
        command.kind = static_cast<CommandKind>(kind);
        if (command.kind == CommandKind::raise) {
            command.message = Refusal{};
        } else if (command.kind == CommandKind::note) {
            command.message = Notice{};
        }
        EXPECT_EQ(*parse_command(to_text(command)), command);
        command.lane = Lane::nvme_read;
        command.work = SideWork::decode;
        command.value = ValueId{4};
        command.block = BlockId{5};
        command.pool = Pool::nvme;
        command.size_bytes = 4096;
        command.after = {CommandId{1}, CommandId{2}};
        command.optional = true;
        EXPECT_EQ(*parse_command(to_text(command)), command);
    }
}

TEST(EventText, every_refusal_and_notice_reads_as_written) {
    Command raise;
    raise.id = CommandId{1};
    raise.kind = CommandKind::raise;
    for (NoRoom const why :
         {NoRoom::moves_nothing, NoRoom::no_pool, NoRoom::pools_full, NoRoom::nothing_to_move}) {
        Refusal refusal{why, 1, 2, 3, 4, 5, 6};
        if (why == NoRoom::pools_full) {
            refusal.host = {PoolState::full, ""};
            refusal.nvme = {PoolState::failed, "no space left"};
        }
        raise.message = refusal;
        EXPECT_EQ(*parse_command(to_text(raise)), raise);
    }
    Command note = raise;
    note.kind = CommandKind::note;
    for (NoticeCode const code :
         {NoticeCode::pool_closed, NoticeCode::not_encoded, NoticeCode::not_loaded}) {
        note.message = Notice{code, Pool::nvme, "why"};
        EXPECT_EQ(*parse_command(to_text(note)), note);
    }
    EXPECT_FALSE(parse_command(R"({"c":"raise","id":0,"lane":"compute"})").ok());
    EXPECT_FALSE(parse_command(R"({"c":"note","id":0,"lane":"compute"})").ok());
}

TEST(EventText, every_advice_and_work_reads_as_written) {
    for (Advice const advice :
         {Advice::never, Advice::last_resort, Advice::when_asked, Advice::at_once}) {
        Saved const saved{ValueId{0}, 8, {"a", 0, 0}, kUsage, 0, advice};
        EXPECT_EQ(*parse_event(to_text(saved)), Event{saved});
    }
    for (SideWork const work : {SideWork::none, SideWork::encode, SideWork::decode}) {
        Command command;
        command.id = CommandId{1};
        command.kind = CommandKind::run;
        command.lane = Lane::side;
        command.work = work;
        EXPECT_EQ(*parse_command(to_text(command)), command);
    }
}

TEST(EventText, what_is_not_encoded_is_written_as_before) {
    Saved const saved{ValueId{0}, 8, {"a", 0, 0}, kUsage};
    EXPECT_EQ(
        to_text(saved),
        R"({"e":"saved","value":0,"size_bytes":8,"slot":{"producer":"a","output":0,"occurrence":0},)"
        R"("used_bytes":100,"peak_bytes":120})"
    );
    Command command;
    command.id = CommandId{1};
    command.kind = CommandKind::store;
    EXPECT_EQ(to_text(command), R"({"c":"store","id":1,"lane":"compute"})");
}

TEST(EventText, errors_name_the_field) {
    EXPECT_EQ(parse_event(R"({"e":"nap"})").error().what, "the text has the unknown event 'nap'");
    EXPECT_EQ(parse_event(R"({"e":"begin"})").error().what, "step is missing");
    EXPECT_EQ(
        parse_event(R"({"e":"begin","step":1,"x":2})").error().what,
        "the text has an unknown field 'x'"
    );
    EXPECT_EQ(
        parse_command(R"({"c":"store","id":1,"lane":"slow"})").error().what,
        "lane must be one of compute, side, copy_out, copy_in, nvme_write, nvme_read"
    );
    EXPECT_EQ(
        parse_command(R"({"c":"run","id":1,"lane":"side","work":"dream"})").error().what,
        "work must be one of none, encode, decode, recompute"
    );
    std::string const saved =
        R"({"e":"saved","value":1,"size_bytes":8,"slot":{"producer":"a","output":0,"occurrence":0},)"
        R"("used_bytes":8,"peak_bytes":8,)";
    EXPECT_EQ(
        parse_event(saved + R"("advice":"soon"})").error().what,
        "advice must be one of never, last_resort, when_asked, at_once"
    );
    EXPECT_NE(parse_event(saved + R"("encoded_bytes":-1})").error().what, "");
    EXPECT_FALSE(parse_log_header(R"({"spillway_events":5,"options":{}})").ok());
}

TEST(EventLog, reads_as_written) {
    std::istringstream stream(to_text(recorded()));
    Result<EventLog> const log = read_event_log(stream);
    ASSERT_TRUE(log.ok()) << log.error().message();
    EXPECT_EQ(*log, recorded());
}

TEST(EventLog, replays_to_the_same_commands) {
    ReplayOutcome const outcome = replay(recorded());
    EXPECT_TRUE(outcome.identical) << outcome.difference;
    EXPECT_EQ(outcome.events, 6);
    EXPECT_GT(outcome.commands, 0);
}

TEST(EventLog, replay_names_the_first_difference) {
    EventLog log = recorded();
    for (LogEntry& entry : log.entries) {
        if (auto* const command = std::get_if<Command>(&entry)) {
            command->size_bytes += 1;
        }
    }
    ReplayOutcome const outcome = replay(log);
    EXPECT_FALSE(outcome.identical);
    EXPECT_NE(outcome.difference.find(": recorded {\"c\":"), std::string::npos)
        << outcome.difference;
}

TEST(EventLog, a_cut_last_line_is_left_out) {
    std::string const text = to_text(recorded());
    std::istringstream stream(text.substr(0, text.size() - 3));
    Result<ReplayOutcome> const outcome = replay(stream);
    ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    EXPECT_TRUE(outcome->identical) << outcome->difference;
}

TEST(EventLog, refuses_what_no_program_does) {
    std::string const header = log_header({}) + "\n";
    std::string const saved = to_text(Saved{ValueId{3}, 1, {}, {}}) + "\n";
    std::istringstream twice(header + saved + saved);
    EXPECT_EQ(
        read_event_log(twice).error().message(), "event log, line 3: saves value 3 out of order"
    );
    std::istringstream unknown(header + to_text(Need{ValueId{9}, {}}) + "\n");
    EXPECT_EQ(
        read_event_log(unknown).error().message(),
        "event log, line 2: needs value 9, which is not live"
    );
    std::istringstream empty("");
    EXPECT_EQ(read_event_log(empty).error().message(), "event log: has no header line");
}

}  // namespace
}  // namespace spillway
