// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "policy/catalog.h"

#include "test_paths.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace spillway {
namespace {

TEST(Catalog, a_policy_is_found_by_its_name_and_has_one_alone) {
    std::set<std::string_view> names;
    for (Policy const& policy : policies()) {
        EXPECT_EQ(find_policy(policy.name), &policy);
        EXPECT_TRUE(names.insert(policy.name).second) << policy.name;
        EXPECT_FALSE(policy.what.empty()) << policy.name;
    }
    EXPECT_EQ(find_policy("best"), nullptr);
    EXPECT_EQ(
        policy_names(),
        "online, keep_all, auto, delta, qpo, te, tba, tba_recompute, vdnn_all, vdnn_conv, "
        "vdnn_dyn, optimal_offload, capuchin, recompute_all, sqrt_checkpoint, rotor, pofo, "
        "superneurons, swapadvisor, str, offload_all and largest_first"
    );
}

TEST(Catalog, what_loses_something_says_so_and_has_its_codecs) {
    for (Policy const& policy : policies()) {
        EXPECT_EQ(policy.is_lossy, policy.codec_of != nullptr) << policy.name;
        EXPECT_TRUE(policy.moves || policy.make_rule == nullptr) << policy.name;
        EXPECT_TRUE(policy.make_rule == nullptr || policy.make_rule() != nullptr) << policy.name;
    }
}

TEST(Catalog, a_policy_of_the_literature_has_its_row_in_the_docs) {
    std::ifstream file(source_folder() + "/docs/systems.md");
    std::string const page{std::istreambuf_iterator<char>(file), {}};
    ASSERT_FALSE(page.empty());
    for (Policy const& policy : policies()) {
        std::string const needs = std::string(policy.needs_pool() ? "NVMe or host memory" : "") +
                                  (policy.is_lossy ? ", `lossy`" : "");
        std::string const columns = " | `" + std::string(policy.name) + "` | " + needs + " | ";
        EXPECT_EQ(page.find(columns) != std::string::npos, !policy.paper.empty()) << columns;
        std::string_view const system = policy.paper.substr(0, policy.paper.find(':'));
        EXPECT_NE(page.find("| " + std::string(system)), std::string::npos) << system;
    }
}

}  // namespace
}  // namespace spillway
