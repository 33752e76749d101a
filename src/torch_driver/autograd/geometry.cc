// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/autograd/geometry.h"

#include <c10/core/InferenceMode.h>
#include <c10/core/StorageImpl.h>

#include <utility>

namespace spillway {

namespace {

bool is_same(at::Tensor const& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
    return tensor.sizes() == sizes && tensor.strides() == strides;
}

/// The bits that make a view conjugated or negative (`x.conj()`, `x.imag` of one).
bool reads_alike(c10::DispatchKeySet one, c10::DispatchKeySet other) {
    constexpr c10::DispatchKeySet kBits{c10::DispatchKey::Conjugate, c10::DispatchKey::Negative};
    return (one & kBits) == (other & kBits);
}

}  // namespace

Geometry geometry_of(at::Tensor const& tensor) {
    return {
        c10::DimVector(tensor.sizes()),
        c10::DimVector(tensor.strides()),
        tensor.storage_offset(),
        tensor.key_set(),
        tensor.dtype()};
}

at::Tensor view_of(c10::Storage storage, Geometry const& geometry) {
    c10::InferenceMode const normal(false);  // else it would have no version counter
    auto impl =
        c10::make_intrusive<c10::TensorImpl>(std::move(storage), geometry.keys, geometry.dtype);
    impl->set_sizes_and_strides(geometry.sizes, geometry.strides, geometry.offset);
    return at::Tensor(std::move(impl));
}

at::Tensor without_bytes(Geometry const& geometry, c10::Device device) {
    c10::DataPtr nothing(nullptr, device);
    return view_of(
        c10::Storage(c10::make_intrusive<c10::StorageImpl>(
            c10::StorageImpl::use_byte_size_t(), 0, std::move(nothing), nullptr, false
        )),
        geometry
    );
}

bool has_geometry(at::Tensor const& tensor, Geometry const& geometry) {
    return geometry.dtype == tensor.dtype() && is_same(tensor, geometry.sizes, geometry.strides) &&
           tensor.storage_offset() == geometry.offset &&
           reads_alike(tensor.key_set(), geometry.keys);
}

bool has_geometry_of(at::Tensor const& tensor, at::Tensor const& one) {
    bool const has_one = one.layout() == c10::kStrided && !one.is_nested() &&
                         !one.key_set().has(c10::DispatchKey::Python);
    return one.is_same(tensor) || !has_one ||
           (one.dtype() == tensor.dtype() && is_same(tensor, one.sizes(), one.strides()) &&
            one.storage_offset() == tensor.storage_offset() &&
            reads_alike(one.key_set(), tensor.key_set()));
}

}  // namespace spillway
