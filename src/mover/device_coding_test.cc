// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What is enqueued for an encode or decode by a device. That the bytes are right is for
// src/cuda_device and tests/late to show.
#include "mover/device_coding.h"

#include "base/units.h"
#include "mover/stepped_device.h"

#include <gtest/gtest.h>

#include <vector>

namespace spillway {
namespace {

constexpr std::int64_t kDeviceCount = 1024;

BlockCode code() {
    return {{parse_codec("affine8").value(), Dtype::f32, kDeviceCount}, 5, "test"};
}

TEST(DeviceCodingTest, its_memory_is_the_devices_and_goes_with_it) {
    SteppedDevice device;
    std::vector<std::byte> const staging(64_KiB);
    {
        DeviceCoding const coding(device, &device, staging);
        EXPECT_TRUE(coding.has_memory());
        EXPECT_EQ(device.take_done(), "record 1 on 3; wait 1 on 2; wait 1 on 4");
    }
    EXPECT_EQ(device.freed, 1);
    EXPECT_FALSE(DeviceCoding(device, nullptr, staging).has_memory());
    EXPECT_FALSE(DeviceCoding(device, &device, {}).has_memory());
    EXPECT_EQ(device.freed, 1);
}

TEST(DeviceCodingTest, an_encode_is_followed_by_a_copy_of_the_block_and_of_samples) {
    SteppedDevice device;
    std::vector<std::byte> staging(64_KiB);
    std::vector<std::byte> raw(kDeviceCount * 4);
    DeviceCoding coding(device, &device, staging);
    Move move{.fence = {1}, .work = SideWork::encode, .route = Route::coded};
    move.device.bytes = raw;
    move.ready = {device.record({0})};
    device.take_done();
    coding.encode(move, code(), staging);
    std::int64_t const coded_bytes = encoded_bytes(code().encoding).value();
    EXPECT_EQ(
        device.take_done(),
        "wait 2 on 3; record 3 on 3; encode 1024 on 3; record 4 on 3; wait 4 on 1; record 5 on 1; "
        "copy " +
            std::to_string(coded_bytes) + " on 1; copy 4096 on 1; record 6 on 1"
    );
    EXPECT_FALSE(move.refusal.has_value());
}

TEST(DeviceCodingTest, a_decode_waits_for_the_copy_of_its_block) {
    SteppedDevice device;
    std::vector<std::byte> const staging(64_KiB);
    std::vector<std::byte> raw(kDeviceCount * 4);
    DeviceCoding coding(device, &device, staging);
    Move move{.way = Direction::load, .work = SideWork::decode, .route = Route::coded};
    move.device.bytes = raw;
    move.ready = {device.record({0})};
    device.take_done();
    coding.decode(move, code().encoding, std::span(staging).first(100));
    EXPECT_EQ(
        device.take_done(),
        "record 3 on 2; copy 100 on 2; record 4 on 2; wait 2 on 4; wait 4 on 4; record 5 on 4; "
        "decode 1024 on 4; record 6 on 4"
    );
}

TEST(DeviceCodingTest, what_the_device_refuses_is_no_refusal_of_a_codec) {
    SteppedDevice device;
    std::vector<std::byte> staging(64_KiB);
    std::vector<std::byte> raw(kDeviceCount * 4);
    DeviceCoding coding(device, &device, staging);
    Move move{.fence = {1}, .work = SideWork::encode, .route = Route::coded};
    move.device.bytes = raw;
    device.refuses_copies = true;
    coding.encode(move, code(), staging);
    ASSERT_TRUE(move.refusal.has_value());
    EXPECT_EQ(move.refusal->code, Errc::io);
    EXPECT_NE(move.copied, nullptr) << "what was enqueued before is waited for";
}

}  // namespace
}  // namespace spillway
