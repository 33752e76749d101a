// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// The operators that make or reshape tensors rather than compute, and dropout.

#include "late/fallback.h"
#include "late/tensors.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <tuple>
#include <utility>

namespace late {

namespace {

c10::Device device_or_current(std::optional<c10::Device> device) {
    if (device && device->has_index()) {
        return *device;
    }
    return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(thread_state().device)};
}

c10::DispatchKeySet keys() {
    return c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
}

at::Tensor empty(
    at::IntArrayRef sizes,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout> layout,
    std::optional<at::Device> device,
    std::optional<bool> /*pin_memory*/,
    std::optional<at::MemoryFormat> format
) {
    TORCH_CHECK(c10::layout_or_default(layout) == at::kStrided, "late: strided tensors only");
    c10::DeviceGuard const guard(device_or_current(device));
    return at::detail::empty_generic(
        sizes, c10::GetAllocator(c10::kPrivateUse1), keys(), c10::dtype_or_default(dtype), format
    );
}

at::Tensor empty_strided(
    at::IntArrayRef sizes,
    at::IntArrayRef strides,
    std::optional<at::ScalarType> dtype,
    std::optional<at::Layout> layout,
    std::optional<at::Device> device,
    std::optional<bool> /*pin_memory*/
) {
    TORCH_CHECK(c10::layout_or_default(layout) == at::kStrided, "late: strided tensors only");
    c10::DeviceGuard const guard(device_or_current(device));
    return at::detail::empty_strided_generic(
        sizes, strides, c10::GetAllocator(c10::kPrivateUse1), keys(), c10::dtype_or_default(dtype)
    );
}

at::Tensor const& resize(
    at::Tensor const& self, at::IntArrayRef sizes, std::optional<at::MemoryFormat> format
) {
    resize_tensor(self, sizes);
    if (format && *format != at::MemoryFormat::Preserve) {
        self.unsafeGetTensorImpl()->empty_tensor_restride(*format);
    }
    return self;
}

at::Tensor& set_storage_and_view(
    at::Tensor& self,
    at::Storage source,
    std::int64_t offset,
    at::IntArrayRef sizes,
    at::IntArrayRef strides
) {
    at::TensorImpl* const tensor = self.unsafeGetTensorImpl();
    tensor->set_storage_keep_dtype(std::move(source));
    tensor->set_storage_offset(offset);
    if (strides.empty() && !sizes.empty()) {
        tensor->set_sizes_contiguous(sizes);
    } else {
        tensor->set_sizes_and_strides(sizes, strides);
    }
    return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source) {
    auto const count = static_cast<std::int64_t>(source.nbytes() / self.element_size());
    return set_storage_and_view(self, std::move(source), 0, {count}, {});
}

at::Tensor& set_nothing(at::Tensor& self) {
    c10::DeviceGuard const guard(self.device());
    at::Storage nothing(
        at::Storage::use_byte_size_t(), 0, c10::GetAllocator(c10::kPrivateUse1), true
    );
    return set_storage_and_view(self, std::move(nothing), 0, {0}, {});
}

void record_use(at::Tensor& self, at::Stream stream) {
    c10::getDeviceAllocator(c10::kPrivateUse1)->recordStream(self.storage().data_ptr(), stream);
}

/// As the CPU's kernel, with the mask drawn on the host.
std::tuple<at::Tensor, at::Tensor> native_dropout(
    at::Tensor const& self, double p, std::optional<bool> train
) {
    int const device = self.device().index();
    at::Tensor mask = at::empty(self.sizes(), self.options().dtype(at::kBool));
    if (!train.value_or(true)) {
        return {self.clone(), mask.fill_(true)};
    }
    at::Tensor drawn = at::empty(self.sizes(), at::TensorOptions().dtype(at::kBool));
    drawn.bernoulli_(1 - p, cpu_generator(std::nullopt, device));
    upload("native_dropout", mask, std::move(drawn));
    return {self.mul(mask).mul_(p == 1 ? 0 : 1 / (1 - p)), mask};
}

}  // namespace

void register_kernels() {
    static auto* const library = new torch::Library(
        torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__
    );
    library->impl("empty.memory_format", &empty);
    library->impl("empty_strided", &empty_strided);
    library->impl("as_strided", &at::native::as_strided_tensorimpl);
    library->impl("view", &at::native::view);
    library->impl("_reshape_alias", &at::native::_reshape_alias);
    library->impl("unfold", &at::native::unfold);
    library->impl("view_as_real", &at::native::view_as_real);
    library->impl("view_as_complex", &at::native::view_as_complex);
    library->impl("resize_", &resize);
    library->impl("set_.source_Storage", &set_storage);
    library->impl("set_.source_Storage_storage_offset", &set_storage_and_view);
    library->impl("set_", &set_nothing);
    library->impl("record_stream", &record_use);
    library->impl("native_dropout", &native_dropout);
    // Composite kernels would win over the fallback: two round otherwise than the CPU's kernels,
    // the others ask for kernels of ours.
    for (char const* const name :
         {"native_layer_norm", "silu_backward", "convolution", "convolution_backward"}) {
        library->impl(name, torch::CppFunction::makeFromBoxedFunction<&fallback>());
    }
}

}  // namespace late
