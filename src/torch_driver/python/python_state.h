// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What Python knows of a saved tensor beside its bytes: a class of its own (`__torch_function__`)
// and attributes (a quantization scale, Megatron's main_grad). Autograd makes a new variable, a
// plain torch.Tensor, of what an unpack hook returns and needs a gradient; a Function would compute
// another gradient with that.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

namespace spillway {

/// What the package passes once: the addresses of torch.Tensor and of torch.nn.Parameter, and of
/// two callables: one hands a copy of `python_state_from()` with its class and attributes over with
/// `python_state_copied`, the other gives `python_state_to()` the class and the attributes of
/// `python_state_from()`.
void set_python_classes(
    std::int64_t tensor, std::int64_t parameter, std::int64_t copier, std::int64_t giver
);

/// Whether Python has seen the tensor.
[[nodiscard]] bool has_python_object(at::Tensor const& tensor);

/// Whether its Python class is another than these two. Asked without Python's lock it is false:
/// then none of Python's code will see what is unpacked.
[[nodiscard]] bool is_python_subclass(at::Tensor const& tensor);

/// "DTensor": of its Python class, which it has. Under Python's lock.
[[nodiscard]] std::string python_class_name(at::Tensor const& tensor);

/// Whether it has attributes of its own in Python; asked as the one before.
[[nodiscard]] bool has_python_attributes(at::Tensor const& tensor);

/// Whether the Function that made `output` saves just now what it gave to `save_for_backward`; true
/// for a tensor that Python has not seen. Under Python's lock.
[[nodiscard]] bool is_saved_by_its_function(at::Tensor const& output);

/// Gives `to`, which Python has not seen yet, the class of `from` and its attributes: the very
/// dictionary, so that both see what is set later. Under Python's lock.
///
/// Fails   as c10::Error with what Python raised: the class cannot be given to another tensor
void copy_python_state(at::Tensor const& from, at::Tensor const& to);

/// Whether `copy_python_state` from it would succeed: not for a class with `__slots__`.
[[nodiscard]] bool can_copy_python_state(at::Tensor const& from);

/// A tensor like `original`, of a class for which that is not possible: a wrapper class
/// (`__torch_dispatch__`) or one with `__slots__`, to return from an unpack hook: the variable that
/// autograd makes of it has the class and the attributes of `original`. Under Python's lock.
///
/// Fails   as c10::Error with what Python raised: the class could not be instantiated again
[[nodiscard]] at::Tensor as_its_subclass(at::Tensor const& original);

// For the callables.
[[nodiscard]] at::Tensor python_state_from();
[[nodiscard]] at::Tensor python_state_to();
void python_state_copied(at::Tensor const& copy);

}  // namespace spillway
