// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/input_files.h"

#include "machine/data_sheets.h"
#include "test_paths.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace spillway {
namespace {

class InputFiles : public testing::Test {
  protected:
    void SetUp() override {
        folder_ = std::filesystem::path(build_folder()) / "scratch" /
                  ("input_files_" + std::to_string(::getpid()));
        std::filesystem::create_directories(folder_);
        before_ = std::filesystem::current_path();
        std::filesystem::current_path(folder_);
    }
    void TearDown() override {
        std::filesystem::current_path(before_);
        std::filesystem::remove_all(folder_);
    }

    std::filesystem::path folder_;
    std::filesystem::path before_;
};

TEST_F(InputFiles, a_machine_is_a_data_sheets_name) {
    Result<Machine> const machine = read_machine("titan-x");
    ASSERT_TRUE(machine.ok()) << machine.error().message();
    EXPECT_EQ(*machine, *find_data_sheet("titan_x"));
}

TEST_F(InputFiles, a_file_of_that_name_wins) {
    Machine mine = *find_data_sheet("h100");
    mine.name = "mine";
    std::ofstream("titan_x") << to_json_text(mine);
    EXPECT_EQ(read_machine("titan_x")->name, "mine");
    std::ofstream("titan_x") << "{}";
    EXPECT_EQ(read_machine("titan_x").error().code, Errc::bad_format);
}

TEST_F(InputFiles, what_is_neither_lists_the_names) {
    Result<Machine> const machine = read_machine("z9.json");
    ASSERT_FALSE(machine.ok());
    EXPECT_EQ(
        machine.error().message().substr(0, 64),
        "machine: no such file, and no data sheet 'z9.json'; there are a1"
    );
    EXPECT_EQ(read_trace("none").error().code, Errc::io);
}

TEST_F(InputFiles, what_is_no_json_is_said_by_line_and_column) {
    std::ofstream("cut.json") << "{\n  \"spillway_trace\": 1,\n  \"na";
    EXPECT_EQ(
        read_trace("cut.json").error().message(),
        "cut.json: trace: is not JSON at line 3, column 5, where it ends"
    );
    std::ofstream("comma.json") << "{\"a\": 1,\n \"b\": ,\n \"c\": 2}\n";
    EXPECT_EQ(
        read_plan("comma.json").error().message(),
        "comma.json: plan: is not JSON at line 2, column 7"
    );
    std::ofstream("empty.json").flush();
    EXPECT_EQ(
        read_machine("empty.json").error().message(),
        "empty.json: machine: is not JSON at line 1, column 0, where it ends"
    );
    std::ofstream("other.json") << "{}";
    EXPECT_EQ(read_trace("other.json").error().message().find("line"), std::string::npos);
}

}  // namespace
}  // namespace spillway
