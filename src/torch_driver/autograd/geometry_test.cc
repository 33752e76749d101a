// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/geometry.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

namespace spillway {
namespace {

at::Tensor numbers() {
    return at::arange(24, at::kFloat).view({4, 6});
}

TEST(GeometryTest, a_view_is_made_again_on_another_storage_of_the_same_bytes) {
    at::Tensor const all = numbers();
    at::Tensor const view = all.t().slice(0, 1, 3);
    at::Tensor const copy = all.clone();
    at::Tensor const again = view_of(copy.storage(), geometry_of(view));
    EXPECT_TRUE(at::equal(again, view));
    EXPECT_EQ(again.strides(), view.strides());
    EXPECT_EQ(again.storage_offset(), view.storage_offset());
    EXPECT_TRUE(has_geometry(again, geometry_of(view)));
    EXPECT_TRUE(has_geometry_of(again, view));
}

TEST(GeometryTest, another_offset_stride_size_or_dtype_is_another_geometry) {
    at::Tensor const view = numbers().slice(0, 0, 2);
    Geometry const geometry = geometry_of(view);
    at::Tensor const all = numbers();
    for (at::Tensor const& other :
         {all.slice(0, 1, 3),
          all.slice(0, 0, 4, 2),
          all.slice(0, 0, 3),
          all.slice(0, 0, 2).to(at::kInt)}) {
        EXPECT_FALSE(has_geometry(other, geometry)) << other.sizes();
        EXPECT_FALSE(has_geometry_of(other, view)) << other.sizes();
    }
}

TEST(GeometryTest, without_bytes_type_and_sizes_are_told) {
    at::Tensor const view = numbers().t();
    at::Tensor const empty = without_bytes(geometry_of(view), view.device());
    EXPECT_EQ(empty.sizes(), view.sizes());
    EXPECT_EQ(empty.dtype(), view.dtype());
    EXPECT_EQ(empty.storage().nbytes(), 0U);
}

TEST(GeometryTest, a_sparse_tensor_has_none_to_differ_from) {
    EXPECT_TRUE(has_geometry_of(numbers(), at::ones({3}).to_sparse()));
}

}  // namespace
}  // namespace spillway
