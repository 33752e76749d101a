// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "plan/planned_codec.h"

#include "codec/codec.h"
#include "machine/machine.h"
#include "trace/trace.h"

#include <gtest/gtest.h>

namespace spillway {
namespace {

TraceValue const kHalf{.slot = {"a", 0, 0}, .size_bytes = 1 << 20, .dtype = "bfloat16"};

Plan plan_with(std::string const& codec) {
    Plan plan;
    plan.fates[kHalf.slot] = {.kind = FateKind::move, .codec = codec};
    return plan;
}

TEST(PlannedCodec, bytes_are_those_of_the_coded_block) {
    // 2^19 elements in 2^11 groups, of which each has a least and a most of 2 bytes; a header.
    EXPECT_EQ(*coded_bytes("affine4:group=256", kHalf), (1 << 18) + (1 << 13) + 64);
    EXPECT_EQ(*coded_bytes("affine8:group=256", kHalf), (1 << 19) + (1 << 13) + 64);
    EXPECT_EQ(*coded_bytes("mask", kHalf), (1 << 16) + 128);
}

TEST(PlannedCodec, a_plan_names_codecs_whose_size_is_known) {
    EXPECT_TRUE(parse_planned_codec("affine8:group=64").ok());
    for (char const* const none : {"lossless", "identity", "mp3", ""}) {
        EXPECT_EQ(parse_planned_codec(none).error().code, Errc::bad_argument) << none;
        EXPECT_FALSE(coded_bytes(none, kHalf).ok()) << none;
    }
}

TEST(PlannedCodec, what_moves_without_one_takes_its_own_bytes) {
    EXPECT_EQ(away_bytes({.kind = FateKind::move}, kHalf), 1 << 20);
    EXPECT_EQ(
        away_bytes({.kind = FateKind::move, .codec = "mask"}, kHalf), *coded_bytes("mask", kHalf)
    );
}

TEST(PlannedCodec, a_plan_is_lossy_by_its_codecs) {
    EXPECT_FALSE(has_codecs(plan_with("")));
    EXPECT_TRUE(has_codecs(plan_with("mask")));
    EXPECT_FALSE(is_lossy(plan_with("mask")));
    EXPECT_TRUE(is_lossy(plan_with("affine8")));
}

TEST(PlannedCodec, codecs_are_as_fast_as_passes_over_the_device_s_memory) {
    Machine machine;
    EXPECT_EQ(codec_rates(machine), CodecRates{});
    machine.device.memory_bytes_per_s = 4e12;
    EXPECT_EQ(codec_rates(machine), (CodecRates{.encode = 1e12, .decode = 2e12}));
}

TEST(PlannedCodec, codecs_are_as_fast_as_the_machine_s_file_says) {
    Machine machine;
    machine.device = {
        .memory_bytes_per_s = 4e12, .encode_bytes_per_s = 3e9, .decode_bytes_per_s = 5e9};
    EXPECT_EQ(codec_rates(machine), (CodecRates{.encode = 3e9, .decode = 5e9}));
}

}  // namespace
}  // namespace spillway
