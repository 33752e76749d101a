// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/states/owned_storages.h"

#include "base/units.h"
#include "memory/cpu_device.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

struct OwnedStoragesTest : testing::Test {
    [[nodiscard]] std::int64_t bytes(OwnedKind kind) const {
        return owned.bytes()[static_cast<std::size_t>(kind)];
    }

    std::shared_ptr<CpuDevice> device = CpuDevice::open({.limit_bytes = 1_MiB}).value();
    OwnedStorages owned{device, c10::Device(c10::kCPU)};
};

TEST_F(OwnedStoragesTest, bytes_are_counted_by_the_kind_that_was_given) {
    at::Tensor const weight = at::ones({4});
    at::Tensor const moment = at::ones({8});
    owned.add({weight, moment}, {}, {OwnedKind::parameter, OwnedKind::optimizer_state});
    EXPECT_EQ(owned.bytes(), (OwnedBytes{16, 0, 0, 32}));
}

TEST_F(OwnedStoragesTest, without_a_kind_a_leaf_that_requires_a_gradient_is_a_parameter) {
    at::Tensor const weight = at::ones({4}).requires_grad_();
    at::Tensor const mean = at::ones({8});
    owned.add({weight, mean});
    EXPECT_EQ(bytes(OwnedKind::parameter), 16);
    EXPECT_EQ(bytes(OwnedKind::buffer), 32);
}

TEST_F(OwnedStoragesTest, a_tied_weight_counts_once) {
    at::Tensor const weight = at::ones({4, 4}).requires_grad_();
    owned.add({weight, weight.detach().t()}, {"embedding.weight", "head.weight"});
    EXPECT_EQ(bytes(OwnedKind::parameter) + bytes(OwnedKind::buffer), 64);
    EXPECT_EQ(*owned.name_of(*weight.storage().unsafeGetStorageImpl()), "head.weight");
}

TEST_F(OwnedStoragesTest, a_storage_is_owned_while_it_lives) {
    {
        at::Tensor const gone = at::ones({4});
        owned.add({gone}, {}, {OwnedKind::gradient});
        EXPECT_TRUE(owned.has(*gone.storage().unsafeGetStorageImpl()));
        EXPECT_EQ(bytes(OwnedKind::gradient), 16);
    }
    at::Tensor const other = at::ones({4});
    EXPECT_EQ(bytes(OwnedKind::gradient), 0);
    EXPECT_FALSE(owned.has(*other.storage().unsafeGetStorageImpl()));
}

TEST_F(OwnedStoragesTest, tensors_without_a_storage_or_a_name_are_no_error) {
    owned.add({at::Tensor(), at::ones({4}).to_sparse(), at::empty({0})}, {"", "sparse"});
    EXPECT_EQ(owned.bytes(), OwnedBytes{});
    at::Tensor const unnamed = at::ones({4});
    owned.add({unnamed}, {""});
    EXPECT_EQ(owned.name_of(*unnamed.storage().unsafeGetStorageImpl()), nullptr);
}

TEST_F(OwnedStoragesTest, a_storage_that_has_a_size_and_no_data_counts_nothing) {
    c10::Storage const of_a_wrapper(
        c10::Storage::use_byte_size_t(),
        4096,
        c10::DataPtr(nullptr, c10::Device(c10::kCPU)),
        nullptr,
        false
    );
    at::Tensor const wrapper = at::empty({0}).set_(of_a_wrapper);
    owned.add({wrapper});
    EXPECT_EQ(owned.bytes(), OwnedBytes{});
    EXPECT_EQ(owned.outside_bytes(), 0);
}

TEST_F(OwnedStoragesTest, what_the_device_did_not_give_is_outside) {
    void* const block = device->try_allocate(4096, {});
    auto const give_back = [](void*) {};
    c10::Storage const ours(
        c10::Storage::use_byte_size_t(),
        4096,
        c10::DataPtr(block, block, give_back, c10::Device(c10::kCPU)),
        nullptr,
        false
    );
    at::Tensor const inside = at::empty({0}).set_(ours);
    at::Tensor const outside = at::ones({4});
    owned.add({inside, outside});
    EXPECT_EQ(owned.outside_bytes(), 16);
    EXPECT_EQ(bytes(OwnedKind::buffer), 4096 + 16);
    device->free(block);
}

}  // namespace
}  // namespace spillway
