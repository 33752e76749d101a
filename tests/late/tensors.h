// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What the kernels share: which bytes a tensor covers, and CPU tensors over them.
#pragma once

#include "late/runtime.h"

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace late {

[[nodiscard]] bool on_device(at::Tensor const& tensor);

/// The bytes from the tensor's first element to its last: with strides, what lies between as well.
[[nodiscard]] Use use_of(at::Tensor const& tensor, bool write);

/// A CPU tensor over the same bytes. It holds no reference to the storage, so that a task does not
/// keep alive what its caller frees too early.
[[nodiscard]] at::Tensor cpu_over(at::Tensor const& tensor);

/// A device tensor of the same geometry, with a block of its own on the current stream.
[[nodiscard]] at::Tensor empty_on_device(at::Tensor const& like, int device);

/// The CPU generator inside a generator of ours, of `device`'s default one if there is none.
[[nodiscard]] at::Generator cpu_generator(
    std::optional<at::Generator> const& generator, int device
);

/// Another block of `size_bytes` for the storage; the old bytes follow in stream order.
void resize_storage(c10::Storage storage, std::size_t size_bytes);
void resize_tensor(at::Tensor const& tensor, at::IntArrayRef sizes);

/// Copies `value`, a CPU tensor that nobody else writes, to a device tensor in stream order.
void upload(std::string name, at::Tensor const& to, at::Tensor value);

// What install() calls, each in the file of its name.
void register_allocators();
void register_guard();
void register_hooks();
void register_kernels();
void register_copies();
void register_fallback();

}  // namespace late
