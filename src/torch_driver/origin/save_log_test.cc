// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/origin/save_log.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

namespace spillway {
namespace {

struct SaveLogTest : testing::Test {
    /// A tensor of 1 MiB that the node saved beside the parameter of that name.
    void add(std::uint64_t node, ValueId value, std::string const& parameter) {
        Save owned;
        owned.node = node;
        owned.stay = Stay::owned;
        owned.size_bytes = 4096;
        owned.name = std::make_shared<std::string const>(parameter);
        log.add(owned, {"aten::linear", "aten::addmm"});
        Save save;
        save.node = node;
        save.value = value;
        save.size_bytes = 1 << 20;
        log.add(save, {"aten::linear", "aten::addmm"});
    }
    [[nodiscard]] bool tells(std::string const& words, std::string const& module = "") const {
        return log.explain(module, histories).find(words) != std::string::npos;
    }

    SaveLog log;
    std::map<ValueId, History> histories;
    ValueId const first{1};
    ValueId const second{2};
};

TEST_F(SaveLogTest, keeps_nothing_until_it_is_asked_to) {
    EXPECT_FALSE(log.is_kept());
    log.keep();
    EXPECT_TRUE(log.is_kept());
}

TEST_F(SaveLogTest, each_save_has_a_row_and_the_sum_counts_a_value_once) {
    add(1, first, "up.weight");
    add(2, first, "down.weight");
    EXPECT_TRUE(tells("4 saved tensors, 1.0 MiB, of which 0 B left")) << log.explain("", {});
    EXPECT_TRUE(tells("kept: it fits in the budget"));
    EXPECT_TRUE(tells("kept: belongs to the model or the optimizer"));
    EXPECT_TRUE(tells("saved before, once in memory"));
}

TEST_F(SaveLogTest, a_module_takes_in_those_inside_it_and_no_namesake) {
    add(1, first, "blocks.1.up.weight");
    add(2, second, "blocks.10.up.weight");
    EXPECT_TRUE(tells("2 saved tensors", "blocks.1"));
    EXPECT_TRUE(tells("4 saved tensors", "blocks"));
    EXPECT_TRUE(tells("is known to belong to 'block'", "block"));
}

TEST_F(SaveLogTest, the_history_of_a_value_is_told) {
    add(1, first, "up.weight");
    History& history = histories[first];
    history.pool = Pool::nvme;
    EXPECT_TRUE(tells("stored to NVMe, but needed again before its memory was reused"));
    history.left = true;
    history.returned = 2;
    history.waited_ns = 1'500'000;
    EXPECT_TRUE(tells("moved to NVMe, which freed nothing: something else holds it"));
    history.came_free = true;
    history.was_refused = true;
    EXPECT_TRUE(
        tells("moved to NVMe without encoding, because its codec cannot represent it, came "
              "back 2 times, waited 1.5 ms")
    );
    EXPECT_TRUE(tells("of which 1.0 MiB left the device"));
}

TEST_F(SaveLogTest, a_value_is_in_the_module_that_saved_it_first) {
    add(1, first, "up.weight");
    add(2, first, "down.weight");
    add(3, second, "down.weight");
    auto const modules = log.modules();
    EXPECT_EQ(modules.size(), 2U);
    EXPECT_EQ(modules.at(first), "up");
    EXPECT_EQ(modules.at(second), "down");
}

TEST_F(SaveLogTest, a_forward_begins_with_none) {
    add(1, first, "up.weight");
    log.begin_pass();
    EXPECT_EQ(log.explain("", {}), "nothing was saved in the last forward");
    EXPECT_TRUE(log.modules().empty());
}

}  // namespace
}  // namespace spillway
