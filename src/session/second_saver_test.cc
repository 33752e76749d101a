// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// A value that another kind of saver needs exactly, at every stage of its way off the device.

#include "session/loop_rig.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

namespace spillway {
namespace {

constexpr std::size_t kSaverFloats = 64 * 1024;  ///< 256 KiB

SavedAs lossy(Advice advice) {
    Encoding const encoding{parse_codec("affine2").value(), Dtype::f32, kSaverFloats};
    return {encoding, advice, TensorClass::linear_input};
}

std::vector<float> saver_noise(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<float> values(kSaverFloats);
    for (float& value : values) {
        value = static_cast<float>(random() % 2001) / 1000 - 1;
    }
    return values;
}

bool comes_back_exact(Rig& rig, ValueId value, std::vector<float> const& values) {
    EXPECT_TRUE(rig.loop->make_room(rig.device->limit_bytes() - 256_KiB).ok());
    EXPECT_TRUE(rig.loop->need(value).ok());
    std::vector<float> const back = rig.floats_of(value, values.size());
    return std::memcmp(back.data(), values.data(), values.size() * sizeof(float)) == 0;
}

TEST(SecondSaver, a_value_that_was_not_reported_yet_goes_raw) {
    Rig rig(64_MiB);
    std::vector<float> const values = saver_noise(1);
    ValueId const value = rig.save_floats(values, lossy(Advice::when_asked)).value();
    rig.loop->goes_raw(value);
    EXPECT_TRUE(comes_back_exact(rig, value, values));
    EXPECT_TRUE(rig.loop->report().codecs.empty());
    EXPECT_EQ(rig.loop->report().raw_for_two_savers, 1);
    EXPECT_GT(rig.loop->report().stored_bytes, 0);
    rig.done_with(value);
}

TEST(SecondSaver, a_value_that_the_executor_would_encode_goes_raw) {
    Rig rig(2_MiB);
    std::vector<float> const values = saver_noise(1);
    for (int i = 0; i < 5; ++i) {  // more than half the cap, so the next is reported
        EXPECT_TRUE(rig.save(256_KiB).ok());
    }
    ValueId const value = rig.save_floats(values, lossy(Advice::when_asked)).value();
    rig.loop->goes_raw(value);
    EXPECT_TRUE(comes_back_exact(rig, value, values));
    EXPECT_TRUE(rig.loop->report().codecs.empty());
    EXPECT_EQ(rig.loop->report().raw_for_two_savers, 1);
    for (std::int64_t i = 0; i <= value.number; ++i) {
        rig.done_with(ValueId{i});
    }
}

TEST(SecondSaver, a_coded_copy_that_is_away_counts_no_more) {
    Rig rig(64_MiB);
    std::vector<float> const values = saver_noise(1);
    ValueId const value = rig.save_floats(values, lossy(Advice::at_once)).value();
    EXPECT_TRUE(rig.save(256_KiB).ok());  // now the first is reported as unshared
    rig.loop->settle();
    EXPECT_FALSE(rig.loop->all_on_device());
    rig.loop->goes_raw(value);
    EXPECT_TRUE(comes_back_exact(rig, value, values));
    EXPECT_EQ(rig.loop->report().codecs.size(), 1U) << "it was encoded once";
    EXPECT_EQ(rig.loop->report().raw_for_two_savers, 1);
    rig.done_with(value);
    rig.done_with(ValueId{1});
}

TEST(SecondSaver, what_is_exact_stays_encoded) {
    Rig rig(64_MiB);
    std::vector<float> const values(kSaverFloats, 1.5F);
    Encoding const encoding{parse_codec("lossless").value(), Dtype::f32, kSaverFloats};
    ValueId const value = rig.save_floats(values, {encoding, Advice::at_once}).value();
    rig.loop->goes_raw(value);
    EXPECT_TRUE(rig.save(256_KiB).ok());
    rig.loop->settle();
    rig.loop->goes_raw(value);
    EXPECT_TRUE(comes_back_exact(rig, value, values));
    ASSERT_EQ(rig.loop->report().codecs.size(), 1U);
    EXPECT_EQ(rig.loop->report().raw_for_two_savers, 0);
    EXPECT_GT(rig.loop->report().codecs[0].decoded_bytes, 0) << "the coded copy still counts";
    rig.done_with(value);
    rig.done_with(ValueId{1});
}

TEST(SecondSaver, without_one_the_code_comes_back) {
    Rig rig(64_MiB);
    std::vector<float> const values = saver_noise(1);
    ValueId const value = rig.save_floats(values, lossy(Advice::at_once)).value();
    EXPECT_TRUE(rig.save(256_KiB).ok());
    EXPECT_FALSE(comes_back_exact(rig, value, values));
    rig.done_with(value);
    rig.done_with(ValueId{1});
}

}  // namespace
}  // namespace spillway
