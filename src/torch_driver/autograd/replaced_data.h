// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Saved tensors that the program gave other data to (`x.data = y`). Plain autograd keeps a saved
// tensor itself, so its backward sees the new data even when the program has let go of the tensor.
// A hook keeps only an alias of the bytes that were saved; so the tensor itself is kept from that
// assignment on, as long as a hook may ask for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace spillway {

using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

/// Torch calls us at each `set_data` of the process from now on. Once a process; does nothing then.
/// Thread  any
void watch_replaced_data();

/// A hook (or what it handed out) dies, which had `original`: where the tensor was kept and nothing
/// else refers to it weakly, it goes. The owner's other references to it have to be gone.
/// Thread  any
void let_go_of_original(WeakTensor original) noexcept;

/// Tensors that are kept now. For tests.
/// Thread  any
[[nodiscard]] std::size_t kept_for_replaced_data();

}  // namespace spillway
