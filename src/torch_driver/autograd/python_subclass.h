// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Saved tensors of Python's subclasses. Autograd gives an unpacked tensor that needs a gradient
// back as a plain torch.Tensor wherever saved-tensor hooks are used; where the subclass overrides
// arithmetic (`__torch_function__`), the gradient of a Python Function would be another.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace spillway {

/// What the package tells once: the addresses of torch.Tensor and of torch.nn.Parameter, and of a
/// callable that hands `subclass_to_copy()`'s class and attributes over with `subclass_copied`.
void set_python_classes(std::int64_t tensor, std::int64_t parameter, std::int64_t copier);

/// Whether the tensor's Python class is another than these two. Asked without Python's lock it is
/// false: then none of Python's code will see what is unpacked.
[[nodiscard]] bool is_python_subclass(at::Tensor const& tensor);

/// A tensor like `original` to return from an unpack hook: the variable that autograd makes of it
/// has the class and the attributes of `original`. Under Python's lock.
///
/// Fails   as c10::Error: the class could not be instantiated again
[[nodiscard]] at::Tensor as_its_subclass(at::Tensor const& original);

// For the callable.
[[nodiscard]] at::Tensor subclass_to_copy();
void subclass_copied(at::Tensor const& copy);

}  // namespace spillway
