// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "machine/data_sheets.h"

#include "machine/data_sheet_texts.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace spillway {
namespace {

TEST(DataSheets, are_machines_whose_files_are_as_they_would_be_written) {
    EXPECT_GE(data_sheet_texts().size(), 11U);
    for (DataSheetText const& sheet : data_sheet_texts()) {
        Result<Machine> const machine = parse_machine(sheet.text);
        ASSERT_TRUE(machine.ok()) << sheet.name << ": " << machine.error().message();
        EXPECT_EQ(to_json_text(*machine), sheet.text) << sheet.name;
    }
}

TEST(DataSheets, say_all_that_is_asked_of_them_and_from_where) {
    for (std::string const& name : data_sheet_names()) {
        Result<Machine> const machine = find_data_sheet(name);
        ASSERT_TRUE(machine.ok()) << name;
        EXPECT_GT(machine->device.float32_flop_per_s, 1e12) << name;
        EXPECT_GE(machine->device.half_flop_per_s, machine->device.float32_flop_per_s) << name;
        EXPECT_GT(machine->device.memory_bytes_per_s, 1e11) << name;
        EXPECT_GE(machine->sources.size(), 4U) << name;
        for (Pool const pool : {Pool::device, Pool::host}) {
            ASSERT_NE(find_tier(*machine, pool), nullptr) << name;
        }
        EXPECT_NE(link_of(*machine, Lane::copy_out), nullptr) << name;
        EXPECT_NE(link_of(*machine, Lane::copy_in), nullptr) << name;
    }
}

TEST(DataSheets, are_found_by_either_spelling) {
    Result<Machine> const machine = find_data_sheet("a100-40-p5800x4");
    ASSERT_TRUE(machine.ok());
    EXPECT_EQ(*machine, *find_data_sheet("a100_40_p5800x4"));
    EXPECT_NE(link_of(*machine, Lane::nvme_write), nullptr);
}

TEST(DataSheets, an_unknown_name_lists_the_known) {
    Result<Machine> const machine = find_data_sheet("z9");
    ASSERT_FALSE(machine.ok());
    std::string const text = machine.error().message();
    EXPECT_EQ(text.rfind("machine: no data sheet 'z9'; there are a100_40, ", 0), 0U) << text;
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0);
    EXPECT_NE(
        text.find("gh200, h100, h200, rtx3090, rtx4090, titan_x, v100_16"), std::string::npos
    );
}

}  // namespace
}  // namespace spillway
