// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// What a tensor is to the operator that saves it (trace/tensor_class.h), by the operator that runs
// when it is saved.
#pragma once

#include "codec/codec.h"
#include "trace/tensor_class.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>
#include <c10/util/FunctionRef.h>

#include <cstdint>

namespace spillway {

/// How a storage is saved. Those of one storage must agree for it to be anything but `other`.
struct SaverClass {
    TensorClass tensor_class = TensorClass::other;
    c10::ScalarType dtype = c10::ScalarType::Undefined;

    bool operator==(SaverClass const&) const = default;
};

/// Of two savers of one storage.
[[nodiscard]] SaverClass both(SaverClass const& one, SaverClass const& another);

/// A tensor on its way into a node, as its hook knows it.
struct SavedNow {
    at::Tensor const& tensor;
    bool is_output = false;         ///< of the very node that saves it
    std::uint64_t node_number = 0;  ///< of that node
};

/// Note [What may be lost]
/// A tensor has a class other than `other` only where all of it is known: the node that saves was
/// made by the innermost operator that is watched on this thread (its sequence number is the one
/// that the operator's first node takes), that operator is in the list (open_operator.cc), and the
/// tensor is the very one that it was given or its output. So what custom Functions, compiled
/// regions, composites of unknown make and threads that are not watched save is `other`, and so is
/// all that is saved while a backward runs: double backward, and recomputation by checkpoints.
/// Integers and booleans are what they are, whoever saves them.
///
/// A product has a lossy side only beside a parameter; of two activations it is attention.
///
/// `is_parameter`: whether a storage is the model's.
[[nodiscard]] SaverClass class_of(
    SavedNow const& saved, c10::function_ref<bool(c10::StorageImpl const&)> is_parameter
);

/// What a codec takes elements of that type for: `u8` where it sees bytes alone.
[[nodiscard]] Dtype codec_dtype_of(c10::ScalarType dtype);

}  // namespace spillway
