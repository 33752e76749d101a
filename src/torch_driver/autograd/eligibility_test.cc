// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/eligibility.h"

#include "base/units.h"
#include "memory/cpu_device.h"
#include "torch_driver/allocator/allocator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

struct EligibilityTest : testing::Test {
    /// Of floats, on a block of the device's.
    [[nodiscard]] at::Tensor tensor(std::int64_t size_bytes) const {
        void* const block = device->try_allocate(size_bytes, {});
        auto const storage = blocks.storage_of(
            blocks.data_of(block, {0}, {0}), static_cast<std::size_t>(size_bytes)
        );
        return at::empty({0}).set_(storage);
    }
    [[nodiscard]] Stay stay_of(at::Tensor const& tensor) const {
        return eligibility.stay_of(tensor, *tensor.storage().unsafeGetStorageImpl());
    }

    std::shared_ptr<CpuDevice> device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
    DeviceBlocks blocks{device, {.free_block = &free_block, .max_value_bytes = 65536}};
    OwnedStorages owned{device, c10::Device(c10::kCPU)};
    Eligibility eligibility{blocks, owned, 4096};
};

TEST_F(EligibilityTest, a_plain_tensor_on_a_block_of_the_device_may_leave) {
    at::Tensor const whole = tensor(8192);
    EXPECT_EQ(stay_of(whole), Stay::may_leave);
    EXPECT_EQ(stay_of(whole.slice(0, 3, 5)), Stay::may_leave) << "its storage counts, not its size";
}

TEST_F(EligibilityTest, sizes_are_bounded_on_both_sides) {
    EXPECT_EQ(stay_of(tensor(4095)), Stay::small);
    EXPECT_EQ(stay_of(tensor(4096)), Stay::may_leave);
    EXPECT_EQ(stay_of(tensor(65536)), Stay::may_leave);
    EXPECT_EQ(stay_of(tensor(65540)), Stay::long_for_tier);
}

TEST_F(EligibilityTest, what_the_session_owns_stays) {
    at::Tensor const weight = tensor(8192);
    owned.add({weight});
    EXPECT_EQ(stay_of(weight), Stay::owned);
}

TEST_F(EligibilityTest, what_others_allocated_stays) {
    EXPECT_EQ(stay_of(at::ones({4096})), Stay::foreign_block);
}

TEST_F(EligibilityTest, what_carries_further_dispatch_keys_is_no_plain_tensor) {
    at::Tensor const conjugate = at::ones({1024}, at::kComplexFloat).conj();
    EXPECT_FALSE(eligibility.is_plain(conjugate));
    EXPECT_EQ(stay_of(conjugate), Stay::no_plain_tensor);
}

}  // namespace
}  // namespace spillway
