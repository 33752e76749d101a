// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "report/peak_split.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

std::int64_t sum_of(PeakSplit const& split) {
    return split.parameter_bytes + split.buffer_bytes + split.gradient_bytes +
           split.optimizer_state_bytes + split.saved_bytes() + split.read_ahead_bytes +
           split.other_bytes;
}

TEST(PeakSplit, modules_are_summed_and_the_largest_come_first) {
    std::vector<ModuleBytes> const rows =
        largest_modules({{"a.0", 10}, {"b", 25}, {"a.0", 10}, {"", 1}});
    EXPECT_EQ(rows, (std::vector<ModuleBytes>{{"b", 25}, {"a.0", 20}, {"", 1}}));
    EXPECT_TRUE(largest_modules({}).empty());
}

TEST(PeakSplit, of_many_modules_the_same_one_of_each_layer_is_one_row) {
    std::vector<ModuleBytes> all;
    for (int layer = 0; layer < 24; ++layer) {
        std::string const path = "h." + std::to_string(layer);
        all.push_back({path + ".mlp.fc", 4});
        all.push_back({path + ".attn", 3});
    }
    EXPECT_EQ(
        largest_modules(all), (std::vector<ModuleBytes>{{"h.*.mlp.fc", 96}, {"h.*.attn", 72}})
    );
}

TEST(PeakSplit, what_is_beyond_a_dozen_modules_is_one_row) {
    std::vector<ModuleBytes> all;
    for (int i = 0; i < 15; ++i) {
        all.push_back({std::string(1, static_cast<char>('a' + i)), 100 - i});
    }
    std::vector<ModuleBytes> const rows = largest_modules(all);
    ASSERT_EQ(rows.size(), kMostModules + 1);
    EXPECT_EQ(rows.front(), (ModuleBytes{"a", 100}));
    EXPECT_EQ(rows.back(), (ModuleBytes{kOtherModules, 88 + 87 + 86}));
}

TEST(PeakSplit, the_rest_of_the_peak_is_other) {
    PeakSplit split{.parameter_bytes = 10, .gradient_bytes = 5, .saved = {{"a", 20}, {"b", 10}}};
    fit_to_peak(split, 60);
    EXPECT_EQ(split.other_bytes, 15);
    EXPECT_EQ(split.saved_bytes(), 30);
    EXPECT_EQ(sum_of(split), 60);
}

TEST(PeakSplit, parts_that_are_too_large_are_cut_from_the_last) {
    PeakSplit split{.parameter_bytes = 10, .saved = {{"a", 20}, {"b", 10}}, .read_ahead_bytes = 7};
    fit_to_peak(split, 33);
    EXPECT_EQ(split.saved, (std::vector<ModuleBytes>{{"a", 20}, {"b", 3}}));
    EXPECT_EQ(split.read_ahead_bytes, 0);
    EXPECT_EQ(split.other_bytes, 0);
    EXPECT_EQ(sum_of(split), 33);
    fit_to_peak(split, 4);
    EXPECT_EQ(split.parameter_bytes, 4);
    EXPECT_TRUE(split.saved.empty());
    EXPECT_EQ(sum_of(split), 4);
}

}  // namespace
}  // namespace spillway
