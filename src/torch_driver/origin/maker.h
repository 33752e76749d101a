// SPDX-FileCopyrightText: The Spillway authors
// SPDX-License-Identifier: Apache-2.0

// Which operator made a tensor, as a person would name it: views, casts and copies on the way are
// looked through.
#pragma once

#include "torch_driver/origin/origin.h"

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

namespace spillway {

struct Maker {
    Origin origin;         ///< of the operator
    bool is_cast = false;  ///< the tensor has other elements than that operator made
    /// Of the leaf that the tensor is a view or cast of, in place of an operator; alive while the
    /// tensor is; or null.
    c10::StorageImpl const* leaf = nullptr;
};

/// Cost: a look at each node of views and casts between, of which there are few.
[[nodiscard]] Maker maker_of(at::Tensor const& tensor);

}  // namespace spillway
