// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/flight_recorder.h"

#include "executor/executor.h"
#include "test_paths.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace spillway {
namespace {

constexpr std::int64_t kSize = 1000;

/// Steps of an executor whose device holds four of a step's eight values.
class Steps {
  public:
    void run(int count) {
        for (int i = 0; i < count; ++i) {
            run_one();
        }
    }

    FlightRecorder recorder{options()};

  private:
    static ExecutorOptions options() {
        return {.device_bytes = 4 * kSize, .nvme_bytes = 100 * kSize};
    }

    void run_one() {
        if (std::optional<ExecutorState> state = executor_.state()) {
            recorder.may_begin_at(*state);
        }
        handle(Begin{step_++});
        handle(PhaseBegan{Phase::forward, {0, 0}});
        std::int64_t const first = next_;
        for (; next_ < first + 8; ++next_) {
            std::int64_t const used = std::min<std::int64_t>(next_ - first + 1, 4) * kSize;
            if (next_ - first >= 4) {
                handle(Short{kSize, {4 * kSize, 4 * kSize}});
            }
            handle(Saved{
                {next_}, kSize, {"op", 0, static_cast<std::int32_t>(next_ - first)}, {used, used}});
            handle(Point{{ValueId{next_}}, {used, used}});
        }
        for (std::int64_t value = first; value < next_; ++value) {
            handle(Dropped{{value}});
        }
    }

    void handle(Event const& event) {
        std::vector<Command> const reply = executor_.on(event);
        recorder.add(event, reply);
        for (Command const& command : reply) {
            if (command.kind == CommandKind::store || command.kind == CommandKind::drop) {
                handle(Finished{command.id});
            }
        }
    }

    Executor executor_{options()};
    std::int64_t step_ = 0;
    std::int64_t next_ = 0;
};

TEST(FlightRecorder, keeps_the_last_steps_and_they_replay) {
    Steps steps;
    steps.run(9);
    EventLog const log = steps.recorder.log();
    EXPECT_NE(log.state, ExecutorState{});
    EXPECT_EQ(log.entries.front(), LogEntry(Event(Begin{6})));
    ReplayOutcome const outcome = replay(log);
    EXPECT_TRUE(outcome.identical) << outcome.difference;
    EXPECT_EQ(outcome.steps, 3);
    EXPECT_GT(outcome.commands, 20);
}

TEST(FlightRecorder, a_record_without_its_state_is_another_run) {
    Steps steps;
    steps.run(9);
    EventLog log = steps.recorder.log();
    log.state = {};
    EXPECT_FALSE(replay(log).identical);
}

TEST(FlightRecorder, the_file_reads_back_as_it_was) {
    Steps steps;
    steps.run(5);
    std::string const path = std::filesystem::path(build_folder()) / "flight_recorder_test.events";
    ASSERT_TRUE(steps.recorder.write(path).ok());
    std::ifstream file(path);
    EXPECT_EQ(read_event_log(file).value(), steps.recorder.log());
    EXPECT_FALSE(std::filesystem::exists(path + ".tmp"));
    Result<void> const nowhere = steps.recorder.write("/no/such/folder/file");
    ASSERT_FALSE(nowhere.ok());
    EXPECT_EQ(nowhere.error().where, "/no/such/folder/file");
}

TEST(FlightRecorder, a_device_is_written_to_and_not_replaced) {
    Steps steps;
    steps.run(1);
    // Through a link: a recorder that is wrong replaces that, not the machine's device.
    auto const link = std::filesystem::path(build_folder()) / "flight_recorder_test.full";
    std::filesystem::remove(link);
    std::filesystem::create_symlink("/dev/full", link);
    EXPECT_FALSE(steps.recorder.write(link).ok());
    EXPECT_TRUE(std::filesystem::is_symlink(link));
    std::filesystem::remove(link);
}

}  // namespace
}  // namespace spillway
