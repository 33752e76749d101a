// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/places.h"

#include "base/units.h"
#include "machine/machine.h"
#include "spillway/planning.h"
#include "test_paths.h"

#include <gtest/gtest.h>

#include <string>

namespace spillway {
namespace {

HostLimits one_gibibyte() {
    HostLimits limits;
    limits.machine_bytes = 1_GiB;
    limits.available_bytes = 1_GiB;
    return limits;
}

SessionOptions in_build_folder() {
    return {.nvme = build_folder(), .nvme_budget_bytes = 64_MiB, .nvme_allow_tmpfs = true};
}

std::string why_not_measured(SessionOptions options) {
    options.face = Face::program;
    Result<std::string> const text = machine_text_here(options);
    return text.ok() ? "" : text.error().message();
}

TEST(Places, no_folder_is_no_tier) {
    std::unique_ptr<Tier> tier;
    EXPECT_EQ(open_nvme_place({}, tier), std::nullopt);
    EXPECT_EQ(tier, nullptr);
}

TEST(Places, a_folder_is_opened_with_its_budget_and_rate) {
    SessionOptions options = in_build_folder();
    options.nvme_rate_bytes_per_s = 1'000'000'000;
    std::unique_ptr<Tier> tier;
    std::optional<OptionFault> const wrong = open_nvme_place(options, tier);
    ASSERT_FALSE(wrong) << words_of(*wrong, Face::cpp);
    EXPECT_EQ(tier->capacity_bytes(), 64_MiB);
}

TEST(Places, what_a_place_does_not_have_is_refused_with_both_numbers) {
    SessionOptions options = in_build_folder();
    options.nvme_budget_bytes = std::int64_t{1} << 60;
    std::unique_ptr<Tier> tier;
    EXPECT_EQ(open_nvme_place(options, tier)->code, OptionCode::above_free);
    EXPECT_EQ(tier, nullptr);
    std::optional<OptionFault> const host = check_host_place(2_GiB, one_gibibyte());
    ASSERT_TRUE(host);
    EXPECT_EQ(host->option, "host_budget_bytes");
    EXPECT_EQ(host->number, 2_GiB);
    EXPECT_EQ(host->bound, 1_GiB);
    EXPECT_EQ(check_host_place(1_GiB, one_gibibyte()), std::nullopt);
}

TEST(Places, the_machine_here_is_measured_as_text) {
    SessionOptions options = in_build_folder();
    options.device_budget_bytes = 1_GiB;
    options.host_budget_bytes = 64_MiB;
    Result<std::string> const text = machine_text_here(options);
    ASSERT_TRUE(text.ok()) << text.error().message();
    Result<Machine> const machine = parse_machine(*text);
    ASSERT_TRUE(machine.ok()) << machine.error().message();
    EXPECT_EQ(find_tier(*machine, Pool::device)->capacity_bytes, 1_GiB);
    EXPECT_EQ(find_tier(*machine, Pool::host)->capacity_bytes, 64_MiB);
    EXPECT_EQ(find_tier(*machine, Pool::nvme)->capacity_bytes, 64_MiB);
    for (Lane const lane : {Lane::copy_out, Lane::copy_in, Lane::nvme_write, Lane::nvme_read}) {
        EXPECT_NE(link_of(*machine, lane), nullptr);
    }
}

TEST(Places, nothing_to_measure_is_one_line_that_names_the_options) {
    EXPECT_EQ(
        why_not_measured({}), "a place to measure is missing: give --nvme, --host-budget or both"
    );
    EXPECT_EQ(
        why_not_measured({.host_budget_bytes = 64_MiB, .nvme_budget_bytes = 64_MiB}),
        "--nvme-budget: it needs --nvme, which is not set"
    );
    EXPECT_TRUE(why_not_measured({.nvme = "/no/such/folder"}).starts_with("--nvme: "));
    EXPECT_TRUE(why_not_measured({.host_budget_bytes = std::int64_t{1} << 60})
                    .starts_with("--host-budget: "));
    EXPECT_NE(why_not_measured({.host_budget_bytes = 64_KiB}), "");  // no room for a few blocks
}

}  // namespace
}  // namespace spillway
