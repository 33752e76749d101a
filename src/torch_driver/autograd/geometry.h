// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The view of a storage that a saved tensor is: what has to be kept while its bytes are away.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/Storage.h>
#include <c10/util/DimVector.h>

#include <cstdint>

namespace spillway {

/// Sizes, strides and offset in elements.
struct Geometry {
    c10::DimVector sizes;
    c10::DimVector strides;
    std::int64_t offset = 0;
    c10::DispatchKeySet keys;
    caffe2::TypeMeta dtype;
};

/// Of a strided tensor.
[[nodiscard]] Geometry geometry_of(at::Tensor const& tensor);

/// The tensor that `geometry` describes, on `storage`; it has a version counter in inference mode,
/// too.
[[nodiscard]] at::Tensor view_of(c10::Storage storage, Geometry const& geometry);

/// The same, without bytes: for what asks for type and sizes alone.
[[nodiscard]] at::Tensor without_bytes(Geometry const& geometry, c10::Device device);

/// `tensor`, which is strided, has that dtype, those sizes, strides and offset, and is a
/// conjugated or negative view only if the geometry is.
[[nodiscard]] bool has_geometry(at::Tensor const& tensor, Geometry const& geometry);

/// Both are the same tensor or have the same geometry; `one` may be of a layout that has none, and
/// then any tensor will do.
[[nodiscard]] bool has_geometry_of(at::Tensor const& tensor, at::Tensor const& one);

}  // namespace spillway
