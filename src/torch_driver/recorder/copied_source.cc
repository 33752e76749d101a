// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "torch_driver/recorder/copied_source.h"

#include "torch_driver/autograd/geometry.h"
#include "torch_driver/recorder/own_work.h"

#include <ATen/core/Tensor.h>

#include <utility>

namespace spillway {

c10::Storage copy_of_storage(c10::Storage const& from, std::int64_t size_bytes) {
    Geometry bytes{
        {size_bytes}, {1}, 0, c10::DispatchKeySet(), caffe2::TypeMeta::Make<std::uint8_t>()};
    bytes.keys =
        c10::DispatchKeySet(c10::computeDispatchKey(at::kByte, c10::kStrided, from.device()));
    return view_of(from, bytes).clone().storage();
}

c10::Storage CopiedSource::storage() const {
    MutexLock const lock(mutex_);
    return copy_ ? copy_ : original();
}

bool CopiedSource::has_copy() const {
    MutexLock const lock(mutex_);
    return static_cast<bool>(copy_);
}

bool CopiedSource::make_copy() {
    if (has_copy()) {
        return true;
    }
    c10::Storage const from = original();
    if (!from || static_cast<std::int64_t>(from.nbytes()) != size_bytes_) {
        return false;
    }
    OwnWork const ours;
    c10::Storage copy = copy_of_storage(from, size_bytes_);
    MutexLock const lock(mutex_);
    if (!copy_) {
        copy_ = std::move(copy);
    }
    return true;
}

c10::Storage CopiedSource::let_go() {
    MutexLock const lock(mutex_);
    return std::exchange(copy_, c10::Storage());
}

}  // namespace spillway
