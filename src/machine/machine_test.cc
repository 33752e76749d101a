// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "machine/machine.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace spillway {
namespace {

Machine small_box() {
    Machine machine;
    machine.name = "small box";
    machine.tiers = {
        {"memory", Pool::device, 1000}, {"pinned", Pool::host, 1000}, {"disk", Pool::nvme, 9000}};
    machine.links = {
        {Pool::device, Pool::host, 20e9, 15e9, 0, "switch"},
        {Pool::host, Pool::device, 21e9, 15e9, 0, "switch"},
        {Pool::host, Pool::nvme, 2.5e9, 2e9, 1000, ""}};
    machine.groups = {{"switch", 30e9}};
    machine.device = {20e12, 300e12, 1.5e12, 0.05};
    machine.sources = {"made up"};
    return machine;
}

std::string refusal(std::function<void(Machine&)> const& change) {
    Machine machine = small_box();
    change(machine);
    Result<void> const verdict = validate(machine);
    return verdict ? "" : verdict.error().message();
}

TEST(Machine, text_gives_the_same_machine) {
    Result<Machine> const parsed = parse_machine(to_json_text(small_box()));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message();
    EXPECT_EQ(*parsed, small_box());
}

TEST(Machine, nothing_need_be_known_of_the_device) {
    Machine machine = small_box();
    machine.device = {};
    machine.sources.clear();
    std::string const text = to_json_text(machine);
    EXPECT_EQ(text.find("device\":{"), std::string::npos);
    EXPECT_EQ(text.find("sources"), std::string::npos);
    EXPECT_EQ(*parse_machine(text), machine);
}

TEST(Machine, refuses_an_impossible_device) {
    EXPECT_EQ(
        refusal([](Machine& m) { m.device.decode_bytes_per_s = 0.5; }),
        "machine: the device has an impossible rate"
    );
    EXPECT_EQ(
        refusal([](Machine& m) { m.device.half_flop_per_s = 0.5; }),
        "machine: the device has an impossible rate"
    );
    EXPECT_EQ(
        refusal([](Machine& m) { m.device.interference = 0.91; }),
        "machine: the device's interference is not from 0 to 0.9"
    );
}

TEST(Machine, lanes_find_their_links) {
    Machine machine = small_box();
    EXPECT_EQ(link_of(machine, Lane::copy_out), &machine.links[0]);
    EXPECT_EQ(link_of(machine, Lane::copy_in), &machine.links[1]);
    EXPECT_EQ(link_of(machine, Lane::nvme_write), &machine.links[2]);
    EXPECT_EQ(link_of(machine, Lane::nvme_read), nullptr);
    machine.links.push_back({Pool::device, Pool::nvme, 1e9, 1e9, 0, ""});
    EXPECT_EQ(link_of(machine, Lane::nvme_write), &machine.links[3]);
    EXPECT_EQ(link_of(machine, Lane::compute), nullptr);
}

TEST(Machine, refuses_broken_tiers) {
    EXPECT_EQ(
        refusal([](Machine& m) {
            m.tiers.push_back({"again", Pool::host, 1});
        }),
        "machine: pool host has two tiers"
    );
    EXPECT_EQ(
        refusal([](Machine& m) { m.tiers[0].capacity_bytes = -1; }),
        "machine: tier 'memory' has a capacity below 0"
    );
}

TEST(Machine, refuses_broken_links) {
    EXPECT_EQ(
        refusal([](Machine& m) { m.links[0].to = Pool::device; }),
        "machine: link device to device goes nowhere"
    );
    EXPECT_EQ(
        refusal([](Machine& m) { m.tiers.pop_back(); }),
        "machine: link host to nvme joins a pool that has no tier"
    );
    EXPECT_EQ(
        refusal([](Machine& m) { m.links.push_back(m.links[0]); }),
        "machine: link device to host is listed twice"
    );
    EXPECT_EQ(
        refusal([](Machine& m) { m.links[0].rate_bytes_per_s = 0; }),
        "machine: link device to host has an impossible rate"
    );
    EXPECT_EQ(
        refusal([](Machine& m) { m.links[0].both_ways_rate_bytes_per_s = 25e9; }),
        "machine: link device to host is faster both ways than one way"
    );
    EXPECT_EQ(
        refusal([](Machine& m) { m.groups.clear(); }),
        "machine: link device to host names the unknown group 'switch'"
    );
}

TEST(Machine, parser_names_the_field) {
    Result<Machine> const parsed = parse_machine(R"({"spillway_machine": 1})");
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(
        parsed.error().message(),
        "machine: the text is of format version 1; this Spillway reads version 2 only"
    );
}

}  // namespace
}  // namespace spillway
