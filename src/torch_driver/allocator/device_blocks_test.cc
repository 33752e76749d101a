// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/allocator/device_blocks.h"

#include "base/units.h"
#include "memory/cpu_device.h"
#include "torch_driver/allocator/allocator.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

/// On the CPU; tests/late holds the order of streams to account.
struct DeviceBlocksTest : testing::Test {
    [[nodiscard]] c10::Storage storage_from_device(std::size_t size_bytes) {
        void* const block = device->try_allocate(static_cast<std::int64_t>(size_bytes), {});
        return blocks.storage_of(blocks.data_of(block, {0}, {0}), size_bytes);
    }

    std::shared_ptr<CpuDevice> device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
    DeviceBlocks blocks{device, {.free_block = &free_block}};
};

TEST_F(DeviceBlocksTest, a_storage_gives_its_block_back_at_its_end) {
    {
        c10::Storage const storage = storage_from_device(4096);
        EXPECT_TRUE(blocks.is_block_of(*storage.unsafeGetStorageImpl()));
        EXPECT_TRUE(blocks.stream_is_known(storage.data()));
        EXPECT_EQ(device->used_bytes(), 4096);
    }
    EXPECT_EQ(device->used_bytes(), 0);
}

TEST_F(DeviceBlocksTest, what_torch_allocated_without_the_device_is_none_of_its_blocks) {
    at::Tensor const other = at::empty({1024});
    EXPECT_FALSE(blocks.is_block_of(*other.storage().unsafeGetStorageImpl()));
}

TEST_F(DeviceBlocksTest, a_part_of_a_block_or_one_with_another_owner_is_none) {
    c10::Storage const whole = storage_from_device(8192);
    auto const keep = [](void*) {};
    c10::StorageImpl const part(
        c10::StorageImpl::use_byte_size_t(),
        4096,
        c10::DataPtr(whole.mutable_data(), whole.mutable_data(), keep, whole.device()),
        nullptr,
        false
    );
    EXPECT_FALSE(blocks.is_block_of(part));
}

TEST_F(DeviceBlocksTest, a_program_may_resize_what_came_back) {
    c10::Storage const storage = storage_from_device(4096);
    EXPECT_TRUE(storage.resizable());
    EXPECT_EQ(storage.nbytes(), 4096U);
}

}  // namespace
}  // namespace spillway
