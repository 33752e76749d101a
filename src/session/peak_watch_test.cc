// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "session/peak_watch.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace spillway {
namespace {

PeakWatch::Modules none() {
    return {};
}

PeakWatch::Modules never() {
    throw std::logic_error("asked for modules without a new look");
}

DeviceNow with(std::int64_t parameter_bytes, std::int64_t saved_bytes) {
    return {.owned = {parameter_bytes}, .saved = {{ValueId{7}, saved_bytes}}};
}

TEST(PeakWatch, a_look_is_wanted_when_the_bytes_are_one_percent_above_the_last_one) {
    PeakWatch watch;
    EXPECT_TRUE(watch.wants(0));
    watch.look(1000, with(600, 300));
    EXPECT_FALSE(watch.wants(1010));
    EXPECT_TRUE(watch.wants(1011));
    watch.look(1005, with(1, 1));  // of a thread that comes late
    EXPECT_EQ(watch.split(1000, none).parameter_bytes, 600);
}

TEST(PeakWatch, parts_sum_to_the_peak_that_is_reported) {
    PeakWatch watch;
    watch.look(1000, with(600, 300));
    PeakSplit const split = watch.split(1009, none);
    EXPECT_EQ(split.parameter_bytes, 600);
    EXPECT_EQ(split.saved_bytes(), 300);
    EXPECT_EQ(split.other_bytes, 109);
    EXPECT_EQ(PeakWatch().split(5, none).other_bytes, 5) << "nothing was seen";
}

TEST(PeakWatch, modules_are_those_of_the_pass_in_which_the_look_was_taken) {
    PeakWatch watch;
    watch.look(1000, with(600, 300));
    auto const fc = [] { return PeakWatch::Modules{{ValueId{7}, "fc"}}; };
    EXPECT_EQ(watch.split(1000, fc).saved, (std::vector<ModuleBytes>{{"fc", 300}}));
    watch.begin_pass(fc);
    watch.begin_pass(never);
    EXPECT_EQ(watch.split(1000, never).saved, (std::vector<ModuleBytes>{{"fc", 300}}));
}

TEST(PeakWatch, passes_after_a_rise_look_once_more_near_the_peak_and_then_no_more) {
    PeakWatch watch;
    watch.look(1000, with(600, 300));
    for (int pass = 1; pass <= 3; ++pass) {
        watch.begin_pass(none);
        EXPECT_FALSE(watch.wants(990)) << pass;
        EXPECT_TRUE(watch.wants(995)) << pass;
        watch.look(995, with(600 + pass, 300));
        EXPECT_FALSE(watch.wants(1010)) << pass;
        EXPECT_EQ(watch.split(1000, none).parameter_bytes, 600 + pass);
    }
    watch.begin_pass(none);
    EXPECT_FALSE(watch.wants(1010));
    EXPECT_TRUE(watch.wants(1011));
}

}  // namespace
}  // namespace spillway
