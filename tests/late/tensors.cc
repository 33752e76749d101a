// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

#include "late/tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace late {

bool on_device(at::Tensor const& tensor) {
    return tensor.device().type() == c10::kPrivateUse1;
}

Use use_of(at::Tensor const& tensor, bool write) {
    if (tensor.numel() == 0) {
        return {};
    }
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < tensor.dim(); ++i) {
        last += (tensor.size(i) - 1) * tensor.stride(i);
    }
    auto const begin = reinterpret_cast<std::uintptr_t>(tensor.const_data_ptr());
    auto const size_bytes = static_cast<std::uintptr_t>(last + 1) * tensor.element_size();
    return {.begin = begin, .end = begin + size_bytes, .write = write};
}

at::Tensor cpu_over(at::Tensor const& tensor) {
    TORCH_CHECK(!tensor.is_conj() && !tensor.is_neg(), "late: no conjugate or negative views");
    auto const options = at::TensorOptions().dtype(tensor.scalar_type()).device(c10::kCPU);
    if (tensor.numel() == 0) {
        return at::empty_strided(tensor.sizes(), tensor.strides(), options);
    }
    return at::from_blob(
        const_cast<void*>(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(), options
    );
}

at::Tensor empty_on_device(at::Tensor const& like, int device) {
    c10::DeviceGuard const guard(
        c10::Device(c10::kPrivateUse1, static_cast<c10::DeviceIndex>(device))
    );
    return at::detail::empty_strided_generic(
        like.sizes(),
        like.strides(),
        c10::GetAllocator(c10::kPrivateUse1),
        c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
        like.scalar_type()
    );
}

void resize_storage(c10::Storage storage, std::size_t size_bytes) {
    c10::DeviceGuard const guard(storage.device());
    c10::DataPtr fresh = c10::GetAllocator(c10::kPrivateUse1)->allocate(size_bytes);
    std::size_t const kept = std::min(size_bytes, storage.nbytes());
    if (kept > 0) {
        auto const from = reinterpret_cast<std::uintptr_t>(storage.data());
        auto const to = reinterpret_cast<std::uintptr_t>(fresh.get());
        Runtime::get().launch(
            current_lane(storage.device().index()),
            "resize_",
            {{from, from + kept, false}, {to, to + kept, true}},
            [from = storage.data(), to = fresh.get(), kept] { std::memcpy(to, from, kept); }
        );
    }
    c10::DataPtr const old = storage.set_data_ptr(std::move(fresh));
    storage.set_nbytes(size_bytes);
}

void resize_tensor(at::Tensor const& tensor, at::IntArrayRef sizes) {
    std::size_t const needed = at::detail::computeStorageNbytesContiguous(
        sizes, tensor.element_size(), static_cast<std::size_t>(tensor.storage_offset())
    );
    if (needed > tensor.storage().nbytes()) {
        resize_storage(tensor.storage(), needed);
    }
    tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
}

void upload(std::string name, at::Tensor const& to, at::Tensor value) {
    Runtime::get().launch(
        current_lane(to.device().index()),
        std::move(name),
        {use_of(to, true)},
        [to = cpu_over(to), value = std::move(value)] {
            at::AutoDispatchBelowADInplaceOrView const guard;
            to.copy_(value);
        }
    );
}

}  // namespace late
